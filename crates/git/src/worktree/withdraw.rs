//! Undoes a creation: right after it failed, or after a crash, by its nonce alone.
//!
//! Only things that carry the nonce count as the creation's: the two staging names, an entry locked
//! with it, the branch's reflog. After a crash, a worktree that was published already is only
//! removed while it holds nothing but the creation's own files; otherwise it stays, for `orphans`
//! to list. If something cannot be inspected, that is an error, and nothing is removed.

use std::path::{Path, PathBuf};
use std::{fs, io};

use grove_model::{BranchName, Nonce};

use super::untouched::is_untouched;
use super::{AddWorktreeError, BranchIntent, UpstreamIntent, source, stage};
use crate::base::{reflog_reason, tracking_ref};
use crate::lock::repository_lock;
use crate::upstream::lock_config;
use crate::{GitError, Repository, links, settled};

/// The outcome of undoing an unfinished creation.
#[derive(Debug, PartialEq, Eq)]
pub enum WithdrawOutcome {
    /// No trace is left.
    Whole,
    /// A person or a program has put something into the new worktree: it stays, still locked.
    Kept(PathBuf),
}

/// Undoes a creation after a crash. `intent` is the change to the branch that the creation was
/// about to make, if it came so far.
pub async fn withdraw_creation(
    repo: &Repository,
    path: &Path,
    branch: &BranchName,
    intent: Option<&BranchIntent>,
    nonce: Nonce,
) -> Result<WithdrawOutcome, AddWorktreeError> {
    let entry = entry_locked_with(repo, nonce).map_err(not_looked_at(path))?;
    if let Some(entry) = &entry
        && published_at(repo, path, entry)?
    {
        let untouched = match intent {
            Some(intent) => is_untouched(repo, path, entry, branch, &intent.to).await?,
            None => false,
        };
        if !untouched {
            return Ok(WithdrawOutcome::Kept(path.to_owned()));
        }
    }
    remove_own(repo, path, nonce)?;
    match intent {
        Some(intent) => put_branch_back(repo, branch, intent, nonce).await?,
        // The creation came no further than its fetch.
        None => delete_own_tracking(repo, branch, nonce).await?,
    }
    // Parent folders that only this creation needed; a folder with other contents stays.
    for dir in path.ancestors().skip(1).take(2) {
        if fs::remove_dir(dir).is_err() {
            break;
        }
    }
    Ok(WithdrawOutcome::Whole)
}

/// Removes the lock of a finished creation, if a crash left it.
pub fn unlock_finished(repo: &Repository, nonce: Nonce) -> io::Result<bool> {
    entry_locked_with(repo, nonce)?.map_or(Ok(false), |entry| stage::remove_lock(&entry).map(|()| true))
}

/// Removes folder, entry and staging places that carry the nonce, and nothing else.
pub(super) fn remove_own(repo: &Repository, path: &Path, nonce: Nonce) -> Result<(), AddWorktreeError> {
    let gone = |result: io::Result<()>, what: &Path| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(AddWorktreeError::io_error(format!("{} cannot be taken back", what.display()))(error))
        }
        _ => Ok(()),
    };
    if let Some(entry) = entry_locked_with(repo, nonce).map_err(not_looked_at(path))? {
        if published_at(repo, path, &entry)? {
            gone(fs::remove_dir_all(path), path)?;
        }
        settled::remove_stamp(&repo.common_dir, &entry);
        gone(fs::remove_dir_all(&entry), &entry)?;
        // Git does the same after it removes the last worktree.
        let _ = fs::remove_dir(repo.common_dir.join("worktrees"));
    }
    for staged in [stage::staged_files(path, nonce), stage::staged_entry(repo, nonce)] {
        gone(fs::remove_dir_all(&staged), &staged)?;
    }
    Ok(())
}

/// Finds git's entry that has this nonce as the reason of its lock.
pub(super) fn entry_locked_with(repo: &Repository, nonce: Nonce) -> io::Result<Option<PathBuf>> {
    let wanted = nonce.to_string();
    for entry in links::list_entries(&repo.common_dir)? {
        match fs::read_to_string(entry.join("locked")) {
            Ok(reason) if reason.trim_end() == wanted => return Ok(Some(entry)),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Tells whether the worktree of this entry is at `path`.
fn published_at(repo: &Repository, path: &Path, entry: &Path) -> Result<bool, AddWorktreeError> {
    let belongs = links::entry_of(path, &repo.common_dir).map_err(not_looked_at(path))?;
    let entry = entry.canonicalize().map_err(not_looked_at(path))?;
    Ok(belongs == Some(entry))
}

fn not_looked_at(path: &Path) -> impl Fn(io::Error) -> AddWorktreeError {
    let what = format!("the worktree for {} cannot be looked at", path.display());
    move |error| AddWorktreeError::io_error(what.clone())(error)
}

/// Undoes what the reflog proves this creation did to the branch, if it was not moved since and is
/// checked out nowhere. Its upstream and the refs that were fetched for it are undone in the same
/// way.
pub(super) async fn put_branch_back(
    repo: &Repository,
    branch: &BranchName,
    intent: &BranchIntent,
    nonce: Nonce,
) -> Result<(), AddWorktreeError> {
    let name = branch.full_ref();
    let pin = source::pin_name(branch, nonce);
    let refs = repo.list_refs(&[name.clone(), pin.clone()]).await?;
    let mut now = refs.get(&name).map(|line| line.at.clone());
    let ours =
        now.as_ref() == Some(&intent.to) && read_reflog(repo, &name, 1).await?.first() == Some(&reflog_reason(nonce));
    if ours && !repo.list_worktrees().await?.iter().any(|entry| entry.branch_name() == Some(branch.as_str())) {
        match &intent.from {
            Some(from) => repo.move_ref(&name, Some(&intent.to), from, "grove: creation undone").await?,
            None => repo.delete_ref(&name, &intent.to).await?,
        }
        now = intent.from.clone();
    }
    // If the branch is back at its old commit, or never moved, its commits need no pin.
    if let Some(pinned) = refs.get(&pin)
        && now.as_ref() == Some(&pinned.at)
    {
        repo.delete_ref(&pin, &pinned.at).await?;
    }
    if now == intent.from {
        if let Some(upstream) = &intent.upstream {
            put_upstream_back(repo, branch, upstream).await?;
        }
        delete_own_tracking(repo, branch, nonce).await?;
    }
    Ok(())
}

/// Restores the upstream: each of its keys that still has the value that the creation wrote.
async fn put_upstream_back(
    repo: &Repository,
    branch: &BranchName,
    UpstreamIntent { from, to }: &UpstreamIntent,
) -> Result<(), AddWorktreeError> {
    let lock =
        lock_config(repo).await.map_err(AddWorktreeError::io_error("the repository's directory cannot be written"))?;
    let mut back = repo.read_upstream(branch).await?;
    back.replace_equal(to, from);
    Ok(repo.write_upstream(&lock, branch, &back).await?)
}

/// Deletes the remote-tracking refs of the branch that the fetch of this creation made, according
/// to their reflogs, and that no later fetch moved.
pub(super) async fn delete_own_tracking(
    repo: &Repository,
    branch: &BranchName,
    nonce: Nonce,
) -> Result<(), AddWorktreeError> {
    let names: Vec<String> =
        repo.list_remotes().await?.iter().map(|remote| tracking_ref(&remote.name, branch)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let lock = repository_lock(&repo.common_dir, "fetch.lock").await;
    let _lock = lock.map_err(AddWorktreeError::io_error("the repository's directory cannot be written"))?;
    let refs = repo.list_refs(&names).await?;
    for line in names.iter().filter_map(|name| refs.get(name)) {
        if read_reflog(repo, &line.name, 2).await? == [format!("{}: storing head", reflog_reason(nonce))] {
            repo.delete_ref(&line.name, &line.at).await?;
        }
    }
    Ok(())
}

/// Returns the newest messages in a ref's reflog, at most `most`.
async fn read_reflog(repo: &Repository, name: &str, most: usize) -> Result<Vec<String>, GitError> {
    let log = repo.new_command("log").args(["--walk-reflogs", "--no-show-signature", "--format=%gs"]);
    let log = log.arg(format!("--max-count={most}"));
    let output = log.args(["--end-of-options", name, "--"]).run_for(&[0, 128]).await?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}
