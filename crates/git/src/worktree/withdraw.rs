//! Taking back a creation that was cut short, after a crash, by its nonce alone.
//!
//! Nothing is believed but what carries the nonce: the two staging names, an entry locked with it,
//! the branch's reflog. A worktree that was published already is only taken away while it holds
//! nothing but what the creation put there; otherwise it stays, unlocked, for `orphans` to list.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use grove_model::{BranchName, Nonce};

use super::{AddError, BranchIntent, source, stage};
use crate::parse;
use crate::{GitError, Place, Repository};

/// What became of an unfinished creation.
#[derive(Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// No trace is left.
    Whole,
    /// Somebody has put something into the new worktree: it stays.
    Kept(PathBuf),
}

/// `intent` is what the creation was about to do to the branch, if it came so far.
pub async fn withdraw(
    repo: &Repository,
    path: &Path,
    branch: &BranchName,
    intent: Option<&BranchIntent>,
    nonce: Nonce,
) -> Result<Withdrawn, AddError> {
    let gone = |result: io::Result<()>, what: &Path| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(AddError::io(format!("{} cannot be taken back", what.display()))(error))
        }
        _ => Ok(()),
    };
    if let Some(entry) = entry_locked_with(repo, nonce) {
        if path.exists() && belongs_to(path, &entry) {
            if !holds_nothing(repo, path, &entry).await? {
                gone(stage::unlock(&entry), &entry)?;
                return Ok(Withdrawn::Kept(path.to_owned()));
            }
            gone(fs::remove_dir_all(path), path)?;
        }
        gone(fs::remove_dir_all(&entry), &entry)?;
        let _ = fs::remove_dir(repo.common_dir.join("worktrees"));
    }
    for staged in [stage::staged_files(path, nonce), stage::staged_entry(repo, nonce)] {
        gone(fs::remove_dir_all(&staged), &staged)?;
    }
    if let Some(intent) = intent {
        put_branch_back(repo, branch, intent, nonce).await?;
    }
    // Folders above that only this creation needed; one with another tenant stays.
    for dir in path.ancestors().skip(1).take(2) {
        if fs::remove_dir(dir).is_err() {
            break;
        }
    }
    Ok(Withdrawn::Whole)
}

/// Takes the lock of a finished creation away, if a crash left it there.
pub fn settle(repo: &Repository, nonce: Nonce) -> io::Result<bool> {
    entry_locked_with(repo, nonce).map_or(Ok(false), |entry| stage::unlock(&entry).map(|()| true))
}

/// Git's entry that carries this nonce as the reason of its lock.
pub(super) fn entry_locked_with(repo: &Repository, nonce: Nonce) -> Option<PathBuf> {
    let wanted = nonce.to_string();
    let entries = fs::read_dir(repo.common_dir.join("worktrees")).ok()?;
    let ours =
        |entry: &PathBuf| fs::read_to_string(entry.join("locked")).is_ok_and(|reason| reason.trim_end() == wanted);
    entries.flatten().map(|entry| entry.path()).find(ours)
}

fn belongs_to(path: &Path, entry: &Path) -> bool {
    let text = fs::read_to_string(path.join(".git")).unwrap_or_default();
    text.trim_end().strip_prefix("gitdir: ").is_some_and(|dir| path.join(dir) == entry)
}

/// Whether the worktree is still as it was made: nothing changed, nothing untracked, and what git
/// ignores is a copy of the canonical checkout's.
async fn holds_nothing(repo: &Repository, path: &Path, entry: &Path) -> Result<bool, GitError> {
    let place = Place::Worktree { work_tree: path, git_dir: entry, common_dir: &repo.common_dir };
    let status = repo.git().command(place, "status");
    let flags = ["--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignore-submodules=none"];
    let status = parse::status(&status.args(flags).long().run().await?.stdout)?;
    if !status.is_clean() {
        return Ok(false);
    }
    let ignored = repo.git().command(place, "ls-files").args(["-z", "--others", "--ignored", "--exclude-standard"]);
    let ignored = ignored.long().run().await?.stdout;
    let copied = |name: &[u8]| {
        let name = parse::path(name);
        matches!((fs::read(path.join(&name)), fs::read(repo.root.join(&name))), (Ok(ours), Ok(theirs)) if ours == theirs)
    };
    Ok(ignored.split(|byte| *byte == 0).filter(|name| !name.is_empty()).all(copied))
}

/// Undoes what the reflog proves this creation did to the branch, if nobody moved it since.
async fn put_branch_back(
    repo: &Repository,
    branch: &BranchName,
    intent: &BranchIntent,
    nonce: Nonce,
) -> Result<(), AddError> {
    let name = branch.full_ref();
    let pin = source::pin_name(branch, nonce);
    let refs = repo.refs(&[name.clone(), pin.clone()]).await?;
    let mut now = refs.get(&name).map(|line| line.at.clone());
    if now.as_ref() == Some(&intent.to) && last_reason(repo, &name).await? == Some(source::reason(nonce)) {
        match &intent.from {
            Some(from) => repo.move_ref(&name, Some(&intent.to), from, "grove: creation undone").await?,
            None => repo.delete_ref(&name, &intent.to).await?,
        }
        now = intent.from.clone();
    }
    // With the branch back where it was, or never moved, its commits need no pin.
    if let Some(pinned) = refs.get(&pin)
        && now.as_ref() == Some(&pinned.at)
    {
        repo.delete_ref(&pin, &pinned.at).await?;
    }
    Ok(())
}

/// Why a ref was last moved, as its reflog says.
async fn last_reason(repo: &Repository, name: &str) -> Result<Option<String>, GitError> {
    let log = repo.command("log").args(["--walk-reflogs", "--max-count=1", "--no-show-signature", "--format=%gs"]);
    let output = log.args(["--end-of-options", name, "--"]).run_for(&[0, 128]).await?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().map(str::to_owned))
}
