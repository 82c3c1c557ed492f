//! Directories that an agent may run in.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grove_git::lock::{EnvironmentLock, FileLock, LockFiles, RunLocks};
use grove_git::reading::SnapshotWorktree;
use grove_model::{Codebase, Environment, Status, short_hash};
use serde::{Deserialize, Serialize};

use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::inspect::current::init_failed;
use crate::provider::disk::PathState;

/// The location of a run: the locks that the agent and all its child processes hold, and the identity of
/// its directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunLocation {
    pub locks: LockFiles,
    device: u64,
    inode: u64,
}

impl RunLocation {
    /// Takes a directory as it is now.
    pub fn from_directory(directory: &Path, locks: LockFiles) -> io::Result<Self> {
        let meta = directory.symlink_metadata()?;
        Ok(Self { locks, device: meta.dev(), inode: meta.ino() })
    }

    /// Locks the directory for a run: from here on it is not moved. Returns `None` if it no longer exists.
    pub fn hold_for_run(&self, directory: &Path) -> io::Result<Option<RunLocks>> {
        let Some(locks) = self.locks.try_hold_run()? else { return Ok(None) };
        let same = directory.symlink_metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == (self.device, self.inode));
        Ok(same.then_some(locks))
    }
}

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

    /// Waits for an environment's turn, then checks the environment once more.
    pub async fn wait_for_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
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
        match now.status {
            Status::Active => {}
            // The agent or the person who works there resolves a failed merge.
            Status::Failed if !init_failed(&now) => {}
            Status::Failed => return Err(broken("its init script failed".to_owned())),
            _ => return Ok(EnvironmentReadiness::Changed),
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
