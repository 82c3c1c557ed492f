//! Where an agent may run.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grove_git::lock::{FileLock, Locks, RunLocks};
use grove_git::reading::Reading;
use grove_model::{Codebase, Environment, Status, short_hash};
use serde::{Deserialize, Serialize};

use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::inspect::current::init_failed;
use crate::provider::disk::{OnDisk, on_disk};
use crate::remove::plan::knows;

/// Where a run is: the locks that the agent and all that it starts hold, and what its directory is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    pub locks: Locks,
    device: u64,
    inode: u64,
}

impl Place {
    /// A directory as it is now.
    pub fn of(directory: &Path, locks: Locks) -> io::Result<Self> {
        let meta = directory.symlink_metadata()?;
        Ok(Self { locks, device: meta.dev(), inode: meta.ino() })
    }

    /// Holds it for a run: from here on it stays where it is. `None`: it is not there any more.
    pub fn hold(&self, directory: &Path) -> io::Result<Option<RunLocks>> {
        let Some(locks) = self.locks.hold()? else { return Ok(None) };
        let same = directory.symlink_metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == (self.device, self.inode));
        Ok(same.then_some(locks))
    }
}

/// All that an agent accepts.
pub enum WorkDir {
    Isolated(Box<ReadyEnvironment>),
    /// The conversation has no codebase.
    NoCodebase(Folder),
    /// A commit that is only looked at.
    Reading(Box<ReadyReading>),
}

/// A commit that was laid out for one run, of which nobody else knows.
pub struct ReadyReading {
    pub codebase: Codebase,
    pub reading: Reading,
    place: Place,
}

impl ReadyReading {
    pub(crate) fn new(codebase: &Codebase, reading: Reading, locks: Locks) -> io::Result<Self> {
        let place = Place::of(&reading.path, locks)?;
        Ok(Self { codebase: codebase.clone(), reading, place })
    }
}

/// A folder that is nobody's worktree, and nobody else's turn.
pub struct Folder {
    path: PathBuf,
    place: Place,
    _turn: FileLock,
}

impl Folder {
    /// Waits for the folder's turn; `home` is where its locks are.
    pub async fn ready(home: &Path, path: PathBuf) -> io::Result<Self> {
        let locks = home.join("locks");
        std::fs::create_dir_all(&locks)?;
        let locks = Locks::in_folder(&locks, &short_hash(path.as_os_str().as_bytes(), 16));
        let turn = locks.turn().await?;
        locks.wait_for_runs(PATIENCE).await?;
        let place = Place::of(&path, locks)?;
        Ok(Self { path, place, _turn: turn })
    }
}

impl WorkDir {
    pub fn place(&self) -> &Place {
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

/// An environment that was just seen to be there and active. While this value lives, turns of other
/// conversations wait; that nobody moves it is for the supervisor, whose locks the agent inherits:
/// a lock of ours would make us one of the processes that a forced removal ends.
pub struct ReadyEnvironment {
    pub codebase: Codebase,
    pub environment: Environment,
    /// Its own folder in the repository.
    pub entry: PathBuf,
    place: Place,
    _turn: FileLock,
}

/// What a place is found to be.
pub enum Ready {
    Here(Box<ReadyEnvironment>),
    /// It was moved, removed or put away since it was chosen: choose again.
    Changed,
}

/// How long what a killed program left running is waited for before it is ended.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);

impl Isolation {
    /// Waits for an environment's turn, then looks at it once more.
    pub async fn ready(&self, codebase: &Codebase, environment: &Environment) -> Result<Ready, IsolationError> {
        let failed =
            |source: io::Error| IsolationError::Io { what: "the environment cannot be locked".to_owned(), source };
        let common_dir = &codebase.git_common_dir;
        let locks = Locks::of_environment(common_dir, environment.id).map_err(failed)?;
        let turn = locks.turn().await.map_err(failed)?;
        // An agent of a grove that was killed ends a moment later; one that does not is ended.
        locks.wait_for_runs(PATIENCE).await.map_err(failed)?;
        let now = self.reread(environment).await?;
        let broken = |why: String| IsolationError::Broken { path: now.path.clone(), why };
        let entry = match on_disk(&now, common_dir) {
            OnDisk::Worktree(entry) if knows(&entry, &now.path) => entry,
            OnDisk::Worktree(_) => return Err(broken("its `.git` leads to another worktree".to_owned())),
            OnDisk::Elsewhere(node) => return Err(broken(format!("it is on another machine ({node})"))),
            OnDisk::Gone | OnDisk::NotMounted | OnDisk::Unknown(_) => return Ok(Ready::Changed),
        };
        match now.status {
            Status::Active => {}
            // A merge that failed is for whoever works there to put right.
            Status::Failed if !init_failed(&now) => {}
            Status::Failed => return Err(broken("its init script failed".to_owned())),
            _ => return Ok(Ready::Changed),
        }
        let place = Place::of(&now.path, locks).map_err(failed)?;
        let codebase = codebase.clone();
        Ok(Ready::Here(Box::new(ReadyEnvironment { codebase, environment: now, entry, place, _turn: turn })))
    }
}
