//! Tells whether nothing was done in a worktree since it was created.

use std::fs;
use std::path::Path;

use grove_model::{BranchName, CommitSha};

use crate::removal::check::in_progress;
use crate::{GitError, GitLocation, Repository, parse};

/// Tells whether the worktree is still as it was created: on its branch at its commit, nothing
/// changed, also not hidden, nothing untracked, nothing in progress, and ignored files are copies
/// of the canonical checkout's.
pub async fn is_untouched(
    repo: &Repository,
    path: &Path,
    entry: &Path,
    branch: &BranchName,
    at: &CommitSha,
) -> Result<bool, GitError> {
    if in_progress(entry).is_some() {
        return Ok(false);
    }
    let place = GitLocation::Worktree { work_tree: path, git_dir: entry, common_dir: &repo.common_dir };
    let status = repo.git().new_command(place, "status");
    let flags = ["--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignore-submodules=none"];
    let status = parse::parse_status(&status.args(flags).inspecting_worktree().run().await?.stdout)?;
    let at_home = status.branch.as_deref() == Some(branch.as_str()) && status.head.as_ref() == Some(at);
    if !status.is_clean() || !at_home {
        return Ok(false);
    }
    // `S` and lower case: git was told not to look at these files.
    let listed = repo.git().new_command(place, "ls-files").args(["-v", "-z"]).inspecting_index().run().await?.stdout;
    let mut files = listed.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    if files.any(|line| line[0] == b'S' || line[0].is_ascii_lowercase()) {
        return Ok(false);
    }
    let ignored = repo.git().new_command(place, "ls-files").args(["-z", "--others", "--ignored", "--exclude-standard"]);
    let ignored = ignored.inspecting_worktree().run().await?.stdout;
    let copied = |name: &[u8]| {
        let name = parse::path_from_bytes(name);
        matches!((fs::read(path.join(&name)), fs::read(repo.root.join(&name))), (Ok(ours), Ok(theirs)) if ours == theirs)
    };
    Ok(ignored.split(|byte| *byte == 0).filter(|name| !name.is_empty()).all(copied))
}
