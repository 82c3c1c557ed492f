//! Reads what is checked out in a worktree now.
//!
//! Git keeps it in the worktree's own entry, in a small file that is read without git. Repositories with
//! reftable keep it elsewhere; there git is asked.

use std::io;
use std::path::Path;

use grove_model::{BranchName, CommitSha};

use crate::durable::{MAX_SMALL_FILE_BYTES, read_plain};
use crate::{GitError, GitLocation, Repository, links};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckedOut {
    Branch(BranchName),
    Detached(CommitSha),
}

impl CheckedOut {
    pub fn branch_name(&self) -> Option<&BranchName> {
        match self {
            CheckedOut::Branch(branch) => Some(branch),
            CheckedOut::Detached(_) => None,
        }
    }

    pub fn is_on(&self, branch: &BranchName) -> bool {
        self.branch_name() == Some(branch)
    }
}

impl std::fmt::Display for CheckedOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CheckedOut::Branch(branch) => write!(f, "`{branch}`"),
            CheckedOut::Detached(at) => write!(f, "no branch, at {}", at.short_sha()),
        }
    }
}

impl Repository {
    /// Returns what is checked out in a worktree of this repository; `None` if there is no such
    /// worktree.
    pub async fn checked_out(&self, worktree: &Path) -> Result<Option<CheckedOut>, GitError> {
        let unreadable =
            |error: io::Error| GitError::unreadable_output("HEAD", format!("{}: {error}", worktree.display()));
        // Git writes the plain path; anything else is resolved first.
        let entry = match links::plain_entry_of(worktree, &self.common_dir) {
            Some(entry) => entry,
            None => match links::entry_of(worktree, &self.common_dir).map_err(unreadable)? {
                Some(entry) => entry,
                None => return Ok(None),
            },
        };
        if self.common_dir.join("reftable").exists() {
            return self.checked_out_by_git(worktree, &entry).await.map(Some);
        }
        let text = read_plain(&entry.join("HEAD"), MAX_SMALL_FILE_BYTES).map_err(unreadable)?;
        read_head(&String::from_utf8_lossy(&text)).map(Some).ok_or_else(|| {
            GitError::unreadable_output("HEAD", format!("{}: neither a branch nor a commit", worktree.display()))
        })
    }

    async fn checked_out_by_git(&self, worktree: &Path, entry: &Path) -> Result<CheckedOut, GitError> {
        let place = GitLocation::Worktree { work_tree: worktree, git_dir: entry, common_dir: &self.common_dir };
        let symbolic = self.git().new_command(place, "symbolic-ref").args(["--quiet", "HEAD"]).run_for(&[0, 1]).await?;
        if symbolic.code == 0 {
            let text = format!("ref: {}", String::from_utf8_lossy(&symbolic.stdout));
            return read_head(&text).ok_or_else(|| GitError::unreadable_output("symbolic-ref", text));
        }
        let at = self.git().new_command(place, "rev-parse").args(["--verify", "HEAD^{commit}"]).run_to_text().await?;
        Ok(CheckedOut::Detached(at.parse().map_err(|_| GitError::unreadable_output("rev-parse", at))?))
    }

    /// Tells whether a branch was renamed to another one, perhaps in several steps, according to the reflog
    /// of the new one.
    pub async fn was_renamed(&self, from: &BranchName, to: &BranchName) -> Result<bool, GitError> {
        let log = self.new_command("log").args(["--walk-reflogs", "--no-show-signature", "--format=%gs"]);
        // 128: there is no such branch.
        let log = log.args(["--end-of-options", &to.full_ref(), "--"]).run_for(&[0, 128]).await?.stdout;
        Ok(leads_to(&String::from_utf8_lossy(&log), &from.full_ref(), &to.full_ref()))
    }
}

/// Parses the text of a HEAD file.
fn read_head(text: &str) -> Option<CheckedOut> {
    let text = text.trim();
    match text.strip_prefix("ref:") {
        Some(name) => {
            let branch = BranchName::parse(name.trim().strip_prefix("refs/heads/")?).ok()?;
            Some(CheckedOut::Branch(branch))
        }
        None => text.parse().ok().map(CheckedOut::Detached),
    }
}

/// Tells whether the renames in a reflog, newest first, lead from one name to another.
fn leads_to(log: &str, from: &str, to: &str) -> bool {
    let renames = log.lines().rev().filter_map(|line| line.strip_prefix("Branch: renamed ")?.split_once(" to "));
    let mut now = from;
    for (old, new) in renames {
        if old == now {
            now = new;
        }
    }
    now == to && from != to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_a_branch_or_a_commit() {
        let branch = BranchName::parse("a/b").unwrap();
        assert_eq!(read_head("ref: refs/heads/a/b\n"), Some(CheckedOut::Branch(branch)));
        let id = "ab".repeat(20);
        assert_eq!(read_head(&format!("{id}\n")), Some(CheckedOut::Detached(id.parse().unwrap())));
        for nonsense in ["", "ref: refs/heads/.invalid", "ref: refs/remotes/x/y", "main"] {
            assert_eq!(read_head(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn renames_are_followed_in_their_order() {
        let log =
            "commit: x\nBranch: renamed refs/heads/b to refs/heads/c\nBranch: renamed refs/heads/a to refs/heads/b\n";
        let leads = |from: &str, to: &str| leads_to(log, &format!("refs/heads/{from}"), &format!("refs/heads/{to}"));
        assert!(leads("a", "c") && leads("b", "c"));
        assert!(!leads("a", "b") && !leads("c", "c") && !leads("x", "c") && !leads("c", "a"));
        assert!(!leads_to("Branch: copied refs/heads/a to refs/heads/c\n", "refs/heads/a", "refs/heads/c"));
    }
}
