//! Taking a worktree away so that nothing is lost.
//!
//! `git worktree remove` is no gate: it exits 0 and destroys ignored files, detached commits, a
//! rebase in progress, edits hidden by skip-worktree, and a dirty worktree nested in an ignored
//! folder. And a salvage commit cannot hold conflict stages, modes, empty directories or nested
//! repositories. So nothing is deleted and nothing is copied:
//!
//! 1. [`look`]: everything that speaks against it is asked, each answer yes, no or unknown.
//! 2. [`pins`]: what only the worktree's own git directory holds is pinned against gc.
//! 3. [`trash`]: directory and entry are renamed into a trash on their own file systems.
//! 4. [`branch`]: the branch goes only if nothing on it would be lost.
//!
//! Undo is the same in reverse. [`compact`] takes out of the trash what can be had again, [`regenerable`]
//! says which folders tools make again.

pub mod branch;
pub mod compact;
pub mod look;
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
pub use look::{Findings, Fingerprint, Look};
pub use regenerable::{RegenerableFolder, RegenerableNames};
pub use trash::{Manifest, Trashed};

/// What refs, pins and lists of one removal take at most.
const FEW_FILES: u64 = 128 * 1024;

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
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> RemovalError {
        let what = what.into();
        move |source| RemovalError::Io { what, source }
    }

    /// Git does not always say why it could not write; a disk without room for a few files does.
    /// To be asked before anything is taken back.
    pub fn explained(self, repository: &Path) -> Self {
        let Ok(disk) = rustix::fs::statvfs(repository) else { return self };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        match self {
            RemovalError::Git(GitError::Failed { .. }) | RemovalError::Pin(_) if free < FEW_FILES => {
                RemovalError::DiskFull { path: repository.to_owned(), free }
            }
            other => other,
        }
    }
}
