//! Removes a worktree without losing anything.
//!
//! `git worktree remove` is no protection: it exits 0 and destroys ignored files, detached commits, a rebase
//! in progress, edits hidden by skip-worktree, and a dirty worktree nested in an ignored folder. And a
//! salvage commit cannot hold conflict stages, modes, empty directories or nested repositories. So nothing is
//! deleted and nothing is copied:
//!
//! 1. [`look`]: checks every reason against the removal; each answer is yes, no or unknown.
//! 2. [`pins`]: pins everything that only the worktree's own git directory holds against gc.
//! 3. [`trash`]: renames directory and entry into a trash on their own file systems.
//! 4. [`branch`]: deletes the branch only if nothing on it would be lost.
//!
//! Undo is the reverse. [`compact`] deletes files from the trash that can be restored, [`regenerable`] tells
//! which folders tools make again. `nested` finds repositories inside a worktree, `traits` reads the
//! properties of a file besides its bytes.

pub mod branch;
pub mod check;
pub mod compact;
pub(crate) mod nested;
pub mod pins;
pub mod regenerable;
mod traits;
pub mod trash;

use std::io;
use std::path::{Path, PathBuf};

use grove_model::{CommitSha, human_size};

use crate::GitError;
use crate::holder::HolderState;

pub use branch::BranchFate;
pub use check::{RemovalCheck, RemovalFindings, WorktreeFingerprint};
pub use regenerable::{RegenerableFolder, RegenerableNames};
pub use trash::{TrashManifest, TrashedWorktree};

/// The maximum size of the refs, pins and lists of one removal.
const REMOVAL_OVERHEAD_BYTES: u64 = 128 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("{} and the trash are not on one file system", .0.display())]
    OtherFileSystem(PathBuf),
    #[error("what only this worktree holds could not be pinned: {0}")]
    Pin(String),
    #[error("{} has only {} free", path.display(), human_size(*free))]
    DiskFull { path: PathBuf, free: u64 },
    #[error("something stands at {}", .0.display())]
    PathTaken(PathBuf),
    #[error("`{name}` is at {now} now and was at {was}")]
    BranchMoved { name: String, was: String, now: String },
    #[error("`{name}` is checked out at {}{state}", at.display())]
    BranchHeld { name: String, at: PathBuf, state: HolderState },
    #[error("the trash holds no worktree at {}", .0.display())]
    NotInTrash(PathBuf),
    #[error("the commit {0} is not there any more")]
    CommitGone(CommitSha),
    #[error("the trash's list cannot be read: {0}")]
    BadManifest(String),
}

impl RemovalError {
    pub(crate) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> RemovalError {
        let what = what.into();
        move |source| RemovalError::Io { what, source }
    }

    /// Adds the cause if the disk is full: git does not always say why it could not write, and a
    /// disk without room for a few files explains it. Call this before anything is undone.
    pub fn with_disk_cause(self, repository: &Path) -> Self {
        let Ok(disk) = rustix::fs::statvfs(repository) else { return self };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        match self {
            RemovalError::Git(GitError::Failed { .. }) | RemovalError::Pin(_) if free < REMOVAL_OVERHEAD_BYTES => {
                RemovalError::DiskFull { path: repository.to_owned(), free }
            }
            other => other,
        }
    }
}
