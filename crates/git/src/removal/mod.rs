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
//! Undo is the same in reverse. [`compact`] takes out of the trash what can be had again.

pub mod branch;
pub mod compact;
pub mod look;
mod nested;
pub mod pins;
pub mod trash;

use std::io;
use std::path::PathBuf;

use grove_model::CommitSha;

use crate::GitError;

pub use branch::BranchFate;
pub use look::{Fingerprint, Look};
pub use trash::{Manifest, Trashed};

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
    #[error("something stands at {}", .0.display())]
    PathTaken(PathBuf),
    #[error("`{name}` is at {now} now and was at {was}")]
    BranchMoved { name: String, was: String, now: String },
    #[error("`{name}` is checked out at {}", at.display())]
    BranchHeld { name: String, at: PathBuf },
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
}
