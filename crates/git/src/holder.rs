//! Which worktree has a branch checked out, and whether its folder is there.

use std::path::PathBuf;
use std::{fmt, io};

use crate::parse::WorktreeEntry;

/// What stands behind git's entry for a worktree that holds a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderState {
    MainCheckout,
    Worktree,
    /// Its folder was deleted; git has not noticed yet.
    Gone,
    /// The same, and the entry is locked: its disk may be away.
    GoneAndLocked,
}

impl fmt::Display for HolderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HolderState::MainCheckout | HolderState::Worktree => Ok(()),
            HolderState::Gone | HolderState::GoneAndLocked => f.write_str(", a folder that is gone"),
        }
    }
}

/// Finds the worktree that has a branch checked out, in git's list, whose first is the main checkout.
pub(crate) fn find_holder(worktrees: &[WorktreeEntry], branch: &str) -> Option<(PathBuf, HolderState)> {
    let at = worktrees.iter().position(|entry| entry.branch() == Some(branch))?;
    let entry = &worktrees[at];
    let gone = entry.path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let state = match (at, gone, &entry.locked) {
        (0, ..) => HolderState::MainCheckout,
        (_, false, _) => HolderState::Worktree,
        (_, true, None) => HolderState::Gone,
        (_, true, Some(_)) => HolderState::GoneAndLocked,
    };
    Some((entry.path.clone(), state))
}
