//! Where an agent may run.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grove_git::lock::{EnvironmentLock, FileLock, run_lock, turn_lock, wait_for_runs};
use grove_model::{Codebase, Environment, Status};

use super::supervise::Place;
use crate::isolation::{Isolation, IsolationError};
use crate::view::{OnDisk, on_disk};

/// All that an agent accepts.
pub enum WorkDir {
    Isolated(Box<ReadyEnvironment>),
    /// The conversation has no codebase: a folder of its own.
    NoCodebase(PathBuf),
}

impl WorkDir {
    pub fn is_isolated(&self) -> bool {
        matches!(self, WorkDir::Isolated(_))
    }

    pub fn path(&self) -> &Path {
        match self {
            WorkDir::Isolated(ready) => &ready.environment.path,
            WorkDir::NoCodebase(path) => path,
        }
    }
}

/// An environment that was just seen to be there and active. While this value lives, turns of other
/// conversations wait; that nobody moves it is for the supervisor, whose locks the agent inherits:
/// a lock of ours would make us one of the processes that a forced removal ends.
pub struct ReadyEnvironment {
    pub codebase: Codebase,
    pub environment: Environment,
    pub(super) place: Place,
    _turn: FileLock,
}

impl ReadyEnvironment {
    /// Ends what is left of a run, at once.
    pub(super) async fn end_leftovers(&self) -> io::Result<()> {
        wait_for_runs(&self.codebase.git_common_dir, self.environment.id, Duration::from_secs(1)).await
    }
}

/// What a place is found to be.
pub enum Ready {
    Here(Box<ReadyEnvironment>),
    /// It was moved, removed or put away since it was chosen: choose again.
    Changed,
}

/// How long what a killed program left running is waited for before it is ended.
const PATIENCE: Duration = Duration::from_secs(8);

impl Isolation {
    /// Waits for an environment's turn, then looks at it once more.
    pub async fn ready(&self, codebase: &Codebase, environment: &Environment) -> Result<Ready, IsolationError> {
        let failed =
            |source: io::Error| IsolationError::Io { what: "the environment cannot be locked".to_owned(), source };
        let common_dir = &codebase.git_common_dir;
        let turn = turn_lock(common_dir, environment.id).await.map_err(failed)?;
        // An agent of a grove that was killed ends a moment later; one that does not is ended.
        wait_for_runs(common_dir, environment.id, PATIENCE).await.map_err(failed)?;
        let now = self.reread(environment).await?;
        let broken = |why: String| IsolationError::Broken { path: now.path.clone(), why };
        match on_disk(&now, common_dir) {
            OnDisk::Worktree(_) => {}
            OnDisk::Elsewhere(node) => return Err(broken(format!("it is on another machine ({node})"))),
            OnDisk::Gone | OnDisk::NotMounted | OnDisk::Unknown(_) => return Ok(Ready::Changed),
        }
        let init_failed = now.metadata.init_script.as_ref().is_some_and(|script| script.error.is_some());
        match now.status {
            Status::Active => {}
            // A merge that failed is for whoever works there to put right.
            Status::Failed if !init_failed => {}
            Status::Failed => return Err(broken("its init script failed".to_owned())),
            _ => return Ok(Ready::Changed),
        }
        let directory = now.path.symlink_metadata().map_err(failed)?;
        let place = Place {
            shared: EnvironmentLock::path(common_dir, now.id).map_err(failed)?,
            alone: run_lock(common_dir, now.id).map_err(failed)?,
            device: directory.dev(),
            inode: directory.ino(),
        };
        Ok(Ready::Here(Box::new(ReadyEnvironment { codebase: codebase.clone(), environment: now, place, _turn: turn })))
    }
}
