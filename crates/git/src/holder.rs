//! Finds the worktree that has a branch checked out, and checks that its folder exists.

use std::path::PathBuf;
use std::{fmt, io};

use crate::parse::WorktreeEntry;

/// The state of the worktree that holds a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderState {
    MainCheckout,
    Worktree,
    /// The folder was deleted; git has not noticed yet.
    Gone,
    /// The folder is missing and the entry is locked: its disk may not be mounted.
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

/// Finds the worktree that has a branch checked out in git's list, which starts with the main checkout.
pub(crate) fn find_holder(worktrees: &[WorktreeEntry], branch: &str) -> Option<(PathBuf, HolderState)> {
    let at = worktrees.iter().position(|entry| entry.branch_name() == Some(branch))?;
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
