//! Directories that an agent may run in.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grove_git::lock::{EnvironmentLock, FileLock, LockFiles};
use grove_git::reading::SnapshotWorktree;
use grove_model::{Codebase, Environment, Status, short_hash};

use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::provider::disk::PathState;
use crate::scripts::RunLocation;

/// Every kind of directory that an agent accepts.
pub enum WorkDir {
    Isolated(Box<ReadyEnvironment>),
    /// The conversation has no codebase.
    NoCodebase(ReadyFolder),
    /// A commit that is only read.
    Reading(Box<ReadySnapshot>),
}

/// A commit that was checked out for one run; no other run knows of it.
pub struct ReadySnapshot {
    pub codebase: Codebase,
    pub reading: SnapshotWorktree,
    place: RunLocation,
}

impl ReadySnapshot {
    pub(crate) fn new(codebase: &Codebase, reading: SnapshotWorktree, locks: LockFiles) -> io::Result<Self> {
        let place = RunLocation::from_directory(&reading.path, locks)?;
        Ok(Self { codebase: codebase.clone(), reading, place })
    }
}

/// A folder that is not a worktree. While this value lives, no other turn runs there.
pub struct ReadyFolder {
    path: PathBuf,
    place: RunLocation,
    _turn: FileLock,
}

impl ReadyFolder {
    /// Waits until no other turn runs in the folder; `home` holds its locks.
    pub async fn wait_for_turn(home: &Path, path: PathBuf) -> io::Result<Self> {
        let locks = home.join("locks");
        std::fs::create_dir_all(&locks)?;
        let locks = LockFiles::in_folder(&locks, &short_hash(path.as_os_str().as_bytes(), 16));
        let turn = locks.wait_for_turn().await?;
        locks.wait_for_runs(LEFTOVER_RUN_TIMEOUT).await?;
        let place = RunLocation::from_directory(&path, locks)?;
        Ok(Self { path, place, _turn: turn })
    }
}

impl WorkDir {
    pub fn run_location(&self) -> &RunLocation {
        match self {
            WorkDir::Isolated(ready) => &ready.place,
            WorkDir::NoCodebase(folder) => &folder.place,
            WorkDir::Reading(reading) => &reading.place,
        }
    }

    pub fn is_isolated(&self) -> bool {
        matches!(self, WorkDir::Isolated(_))
    }

    pub fn path(&self) -> &Path {
        match self {
            WorkDir::Isolated(ready) => &ready.environment.path,
            WorkDir::NoCodebase(folder) => &folder.path,
            WorkDir::Reading(ready) => &ready.reading.path,
        }
    }
}

/// An environment that was just seen to exist and to be active. While this value lives, turns of other
/// conversations wait. It does not keep the environment from being moved: the supervisor does, whose locks
/// the agent inherits. A lock of this process would make it one of the processes that a forced removal ends.
pub struct ReadyEnvironment {
    pub codebase: Codebase,
    pub environment: Environment,
    /// Git's own folder for the worktree, in the repository.
    pub entry: PathBuf,
    place: RunLocation,
    _turn: FileLock,
}

/// The result of checking an environment before a run.
pub enum EnvironmentReadiness {
    Here(Box<ReadyEnvironment>),
    /// The environment was moved, removed or hibernated since it was chosen: choose again.
    Changed,
}

/// The time that a run left by a killed program gets to end by itself before it is ended.
pub(crate) const LEFTOVER_RUN_TIMEOUT: Duration = Duration::from_secs(8);

impl Environments {
    /// Opens the lock that a command inside an environment holds, so that the environment is not moved.
    pub fn open_command_lock(&self, codebase: &Codebase, environment: &Environment) -> io::Result<EnvironmentLock> {
        self.provider.open_lock(codebase, environment)
    }

    /// Tells whether an environment of this machine is at its path, and nothing else.
    pub fn is_in_place(&self, codebase: &Codebase, environment: &Environment) -> bool {
        matches!(self.provider.path_state(codebase, environment), PathState::Worktree(_))
    }

    /// Waits for an environment's turn to run its init script there.
    pub(crate) async fn lock_for_init(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<WorkDir, EnvironmentError> {
        let ready = self.check_in_turn(codebase, environment, |now| {
            Ok(matches!(now.status, Status::Active | Status::Failed | Status::Initializing))
        });
        match ready.await? {
            EnvironmentReadiness::Here(ready) => Ok(WorkDir::Isolated(ready)),
            EnvironmentReadiness::Changed => Err(EnvironmentError::InTheMaking { work: environment.work.to_string() }),
        }
    }

    /// Waits for an environment's turn, then checks the environment once more.
    pub async fn wait_for_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<EnvironmentReadiness, EnvironmentError> {
        self.check_in_turn(codebase, environment, |now| match now.status {
            _ if now.needs_init() => Err("its init script has not succeeded".to_owned()),
            // The agent or the person who works there resolves a failed merge.
            Status::Active | Status::Failed => Ok(true),
            _ => Ok(false),
        })
        .await
    }

    /// Waits for an environment's turn and checks it. `is_usable` decides by its record: `false` if it has to be
    /// chosen again, an error if it cannot be used.
    async fn check_in_turn(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        is_usable: impl Fn(&Environment) -> Result<bool, String>,
    ) -> Result<EnvironmentReadiness, EnvironmentError> {
        let failed =
            |source: io::Error| EnvironmentError::Io { what: "the environment cannot be locked".to_owned(), source };
        let locks = self.provider.run_locks(codebase, environment).map_err(failed)?;
        let turn = locks.wait_for_turn().await.map_err(failed)?;
        // An agent of a killed grove process ends a moment later; one that does not is ended.
        locks.wait_for_runs(LEFTOVER_RUN_TIMEOUT).await.map_err(failed)?;
        let now = self.reload_environment(environment).await?;
        let broken = |why: String| EnvironmentError::Broken { path: now.path.clone(), why };
        let entry = match self.provider.path_state(codebase, &now) {
            PathState::Worktree(entry) if self.provider.entry_points_to(&entry, &now.path) => entry,
            PathState::Worktree(_) => return Err(broken("its `.git` leads to another worktree".to_owned())),
            PathState::Elsewhere(node) => return Err(broken(format!("it is on another machine ({node})"))),
            PathState::Gone | PathState::NotMounted | PathState::Unknown(_) => {
                return Ok(EnvironmentReadiness::Changed);
            }
        };
        if !is_usable(&now).map_err(broken)? {
            return Ok(EnvironmentReadiness::Changed);
        }
        let place = RunLocation::from_directory(&now.path, locks).map_err(failed)?;
        let codebase = codebase.clone();
        Ok(EnvironmentReadiness::Here(Box::new(ReadyEnvironment {
            codebase,
            environment: now,
            entry,
            place,
            _turn: turn,
        })))
    }
}
