//! Submodules of a new worktree.

use std::path::Path;

use crate::{Git, GitError, Place};

/// Initialises and checks out the submodules of a worktree that has any.
pub async fn initialise(git: &Git, work_tree: &Path) -> Result<bool, GitError> {
    if !work_tree.join(".gitmodules").is_file() {
        return Ok(false);
    }
    let update = git.command(Place::Dir(work_tree), "submodule").args(["--quiet", "update", "--init", "--recursive"]);
    update.network().run().await?;
    Ok(true)
}
