//! Decides whether the branch of a removed worktree is deleted, and restores it.
//!
//! The branch is deleted only if everything on it is also somewhere else that stays, and only while
//! it is at the commit that was checked. Its reflog and its section of the config are kept beside
//! the trash.

use std::path::{Path, PathBuf};
use std::{fs, io};

use grove_model::{BranchName, CommitSha};
use serde::{Deserialize, Serialize};

use super::RemovalError;
use super::check::{RemovalSubject, is_waiting_for};
use crate::durable::{MAX_SMALL_FILE_BYTES, read_plain, write_synced};
use crate::lock::repository_lock;
use crate::parse::WorktreeEntry;
use crate::{GitError, Repository, links};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum BranchFate {
    /// The branch does not exist.
    Absent,
    /// Everything on it is elsewhere too: it is deleted.
    Goes { tip: CommitSha },
    /// This many commits are nowhere else.
    OwnCommits { tip: CommitSha, commits: u64 },
    /// The main checkout or another worktree is on it, or new work starts from it.
    InUse { tip: CommitSha },
    /// It could not be determined.
    Unknown { why: String },
}

impl BranchFate {
    pub fn tip_commit(&self) -> Option<&CommitSha> {
        match self {
            BranchFate::Goes { tip } | BranchFate::OwnCommits { tip, .. } | BranchFate::InUse { tip } => Some(tip),
            BranchFate::Absent | BranchFate::Unknown { .. } => None,
        }
    }

    /// Tells whether the branch still exists after the removal.
    pub fn is_kept(&self) -> bool {
        !matches!(self, BranchFate::Absent | BranchFate::Goes { .. })
    }
}

/// Decides what happens to a worktree's branch when the worktree is removed. `on` and `head` are
/// the branch and the commit that are checked out there.
pub(super) async fn find_branch_fate(
    repo: &Repository,
    subject: RemovalSubject<'_>,
    on: Option<&str>,
    head: Option<&CommitSha>,
) -> BranchFate {
    match try_fate(repo, subject, on, head).await {
        Ok(fate) => fate,
        Err(why) => BranchFate::Unknown { why },
    }
}

async fn try_fate(
    repo: &Repository,
    subject: RemovalSubject<'_>,
    on: Option<&str>,
    head: Option<&CommitSha>,
) -> Result<BranchFate, String> {
    let (branch, name) = (subject.branch, subject.branch.full_ref());
    let tip = match head {
        Some(head) if on == Some(branch.as_str()) => head.clone(),
        _ => match repo.commit_of(&name).await.map_err(|error| error.to_string())? {
            Some(tip) => tip,
            None => return Ok(BranchFate::Absent),
        },
    };
    let elsewhere = checked_out_elsewhere(repo, branch, Some((subject.path, subject.entry))).await?;
    if elsewhere || is_alias(repo, &name).await? || subject.needed.contains(&branch.as_str()) {
        return Ok(BranchFate::InUse { tip });
    }
    // Counted for this commit, not for the branch's later position: the branch is deleted only
    // while it is here.
    match own_commits(repo, &tip, Some(branch)).await.map_err(|error| error.to_string())? {
        0 => Ok(BranchFate::Goes { tip }),
        commits => Ok(BranchFate::OwnCommits { tip, commits }),
    }
}

/// Tells whether the main checkout, a bare repository's HEAD or another worktree is on the branch,
/// or returns to it when a rebase there ends. `but_for` is a worktree that does not count, and its
/// entry.
async fn checked_out_elsewhere(
    repo: &Repository,
    branch: &BranchName,
    but_for: Option<(&Path, &Path)>,
) -> Result<bool, String> {
    let name = branch.full_ref();
    if repo.common_dir.join("reftable").exists() {
        let worktrees = repo.list_worktrees().await.map_err(|error| error.to_string())?;
        let on = |entry: &WorktreeEntry| entry.branch_name() == Some(branch.as_str());
        let other = |entry: &WorktreeEntry| but_for.is_none_or(|(path, _)| entry.path != path);
        if worktrees.iter().any(|entry| other(entry) && on(entry)) {
            return Ok(true);
        }
    }
    let mut places = links::list_entries(&repo.common_dir).map_err(|error| error.to_string())?;
    places.retain(|entry| but_for.is_none_or(|(_, own)| entry != own));
    places.push(repo.common_dir.clone());
    for place in places {
        if is_waiting_for(&place, branch) {
            return Ok(true);
        }
        match read_plain(&place.join("HEAD"), MAX_SMALL_FILE_BYTES) {
            Ok(text) if String::from_utf8_lossy(&text).trim_end() == format!("ref: {name}") => return Ok(true),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(format!("{}: {error}", place.display()));
            }
            _ => {}
        }
    }
    Ok(false)
}

/// Counts the commits of `revision` that no branch but `without`, no remote's branch and no tag holds. A HEAD
/// that a person or an agent only looks at, a stash and a pin of the trash do not count: they do not stay by
/// themselves.
pub(super) async fn own_commits(
    repo: &Repository,
    revision: &CommitSha,
    without: Option<&BranchName>,
) -> Result<u64, GitError> {
    let count = repo.new_command("rev-list").args(["--count", revision.as_str(), "--not"]);
    let count = count.args(without.map(|branch| format!("--exclude={branch}")));
    let text = count.args(["--branches", "--tags", "--remotes"]).with_long_timeout().run_to_text().await?;
    text.parse().map_err(|_| GitError::unreadable_output("rev-list", text))
}

/// Tells whether a branch is only another name (a symbolic ref) for a branch.
async fn is_alias(repo: &Repository, name: &str) -> Result<bool, String> {
    if !repo.common_dir.join("reftable").exists() {
        return match read_plain(&repo.common_dir.join(name), MAX_SMALL_FILE_BYTES) {
            Ok(text) => Ok(text.starts_with(b"ref:")),
            // The ref is packed, or does not exist.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.to_string()),
        };
    }
    let asked = repo.new_command("symbolic-ref").args(["--quiet", name]).run_for(&[0, 1, 128]).await;
    Ok(asked.map_err(|error| error.to_string())?.code == 0)
}

/// The file that keeps a branch's reflog while the branch is deleted; its config is kept too.
const BRANCH_LOG_FILE: &str = "branch.log";
const BRANCH_CONFIG_FILE: &str = "branch.config";

fn log_of(repo: &Repository, name: &str) -> PathBuf {
    repo.common_dir.join("logs").join(name)
}

/// Copies the branch's reflog and config into the trash, before the branch is deleted.
pub(super) async fn keep_traces(repo: &Repository, branch: &BranchName, aside: &Path) -> Result<(), RemovalError> {
    let io = |error| RemovalError::io_error("the branch's reflog cannot be kept")(error);
    match fs::read(log_of(repo, &branch.full_ref())) {
        Ok(log) => write_synced(&aside.join(BRANCH_LOG_FILE), log).map_err(io)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io(error)),
    }
    let config = fs::read_to_string(repo.common_dir.join("config")).unwrap_or_default();
    if !config.contains(&section_header(branch)) {
        return Ok(());
    }
    let listed = repo.new_command("config").args(["--local", "--list", "-z"]).run().await?;
    let prefix = format!("branch.{branch}.");
    // `branch.v.x.merge` belongs to the branch `v.x`.
    let of_it = |entry: &&[u8]| {
        let key = entry.split(|byte| *byte == b'\n').next().unwrap_or_default();
        key.strip_prefix(prefix.as_bytes()).is_some_and(|rest| !rest.contains(&b'.'))
    };
    let ours = listed.stdout.split(|byte| *byte == 0).filter(of_it);
    let mut kept = ours.collect::<Vec<_>>().join(&0);
    kept.push(0);
    write_synced(&aside.join(BRANCH_CONFIG_FILE), kept).map_err(io)
}

fn section_header(branch: &BranchName) -> String {
    format!("[branch \"{}\"]", branch.as_str().replace('\\', "\\\\").replace('"', "\\\""))
}

/// Deletes the branch if it is still at `tip`. A branch that was moved or deleted in the meantime
/// is left as it is.
pub async fn delete_branch(
    repo: &Repository,
    branch: &BranchName,
    tip: &CommitSha,
    recount: bool,
    aside: &Path,
) -> Result<bool, GitError> {
    let name = branch.full_ref();
    // Another branch with the same commits may be about to be deleted too: one after the other, and
    // each is counted against the branches that are left.
    let lock = repository_lock(&repo.common_dir, "branches.lock").await;
    let _lock = lock.map_err(|error| GitError::unreadable_output("lock", error.to_string()))?;
    if recount && own_commits(repo, tip, Some(branch)).await? > 0 {
        return Ok(false);
    }
    // The branch stays if a worktree has checked it out since then.
    let in_use = checked_out_elsewhere(repo, branch, None).await;
    if in_use.map_err(|error| GitError::unreadable_output("worktrees", error))? {
        return Ok(false);
    }
    if let Err(error) = repo.delete_ref(&name, tip).await {
        match (error, repo.commit_of(&name).await?) {
            (GitError::Failed { .. }, None) => {}
            (GitError::Failed { .. }, Some(now)) if now != *tip => return Ok(false),
            (error, _) => return Err(error),
        }
    }
    if aside.join(BRANCH_CONFIG_FILE).exists() {
        let section = format!("branch.{branch}");
        // 128: another process removed the section already.
        repo.new_command("config").args(["--local", "--remove-section", &section]).run_for(&[0, 128]).await?;
    }
    Ok(true)
}

/// Restores a deleted branch at its old commit, with its reflog and config. Each part is checked by
/// itself, since a crash may have come between them.
pub async fn restore_branch(
    repo: &Repository,
    branch: &BranchName,
    tip: &CommitSha,
    traces: Option<&Path>,
) -> Result<(), RemovalError> {
    let name = branch.full_ref();
    match repo.list_refs(std::slice::from_ref(&name)).await?.get(&name) {
        Some(line) if line.at == *tip => {}
        Some(line) => {
            let (was, now) = (tip.short_sha().to_owned(), line.at.short_sha().to_owned());
            return Err(RemovalError::BranchMoved { name: branch.to_string(), was, now });
        }
        None => {
            // Without a reflog of its own: its old one is restored.
            let create = repo.new_command("update-ref").with_config("core.logAllRefUpdates=false");
            create.args(["--no-deref", &name, tip.as_str(), &tip.zero_sha()]).run().await?;
        }
    }
    let kept = |name: &str| traces.and_then(|traces| fs::read(traces.join(name)).ok());
    let path = log_of(repo, &name);
    if let Some(log) = kept(BRANCH_LOG_FILE).filter(|_| path.symlink_metadata().is_err()) {
        let io = |error| RemovalError::io_error("the branch's reflog cannot be brought back")(error);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(io)?;
        let whole = path.with_extension("lock");
        write_synced(&whole, log).and_then(|()| fs::rename(&whole, &path)).map_err(io)?;
    }
    let Some(config) = kept(BRANCH_CONFIG_FILE) else { return Ok(()) };
    let there = repo.new_command("config").args(["--local", "--list", "-z"]).run().await?.stdout;
    let there: Vec<&[u8]> = there.split(|byte| *byte == 0).collect();
    for entry in config.split(|byte| *byte == 0).filter(|entry| !there.contains(entry)) {
        let text = String::from_utf8_lossy(entry);
        let Some((key, value)) = text.split_once('\n') else { continue };
        repo.new_command("config").args(["--local", "--add", key, value]).run().await?;
    }
    Ok(())
}
