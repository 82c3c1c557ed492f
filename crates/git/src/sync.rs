//! Merges new commits into a worktree: of the base, or of a pull request's newer head.

use std::path::Path;

use grove_model::CommitSha;

use crate::base::{REMOTE_QUERY_TIMEOUT, pull_request_refs};
use crate::command::planted::BlockedPrograms;
use crate::repository::Remote;
use crate::{GitError, GitLocation, Repository, parse};

#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error("`{from}` conflicts with what is here, in {}", files.join(", "))]
    Conflict { from: String, files: Vec<String> },
    #[error("`{0}` was not found")]
    NoSuch(String),
    #[error("`{remote}` could not be asked for `{name}`: {line}")]
    FetchFailed { remote: String, name: String, line: String },
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Fetches `name` (`main`, `origin/main`) if it is on a remote, and returns its current commit.
pub async fn fetch_newest(repo: &Repository, name: &str) -> Result<CommitSha, SyncError> {
    if let Some((remote, branch)) = of_remote(repo, name).await? {
        let refspec = format!("+refs/heads/{branch}:refs/remotes/{remote}/{branch}");
        if let Err(error) = repo.fetch_refspecs(&remote, &[refspec]).await {
            return Err(SyncError::FetchFailed { remote, name: branch, line: error.reason_line() });
        }
    }
    for candidate in [format!("refs/remotes/{name}"), format!("refs/heads/{name}"), name.to_owned()] {
        if let Some(at) = repo.commit_of(&candidate).await? {
            return Ok(at);
        }
    }
    Err(SyncError::NoSuch(name.to_owned()))
}

/// Returns the remote and the branch that a name (`origin/main`) means; `None` if it is a branch of this
/// repository.
pub async fn of_remote(repo: &Repository, name: &str) -> Result<Option<(String, String)>, GitError> {
    let remotes = repo.list_remotes().await?;
    let of = |remote: &Remote| name.strip_prefix(&format!("{}/", remote.name)).map(str::to_owned);
    Ok(remotes.iter().find_map(|remote| Some((remote.name.clone(), of(remote)?))))
}

/// Tells whether a branch (`main`, `origin/main`) exists now. For a remote's branch, the remote is
/// queried.
pub async fn is_there(repo: &Repository, name: &str) -> Result<bool, SyncError> {
    let Some((remote, branch)) = of_remote(repo, name).await? else {
        return Ok(repo.commit_of(&format!("refs/heads/{name}")).await?.is_some());
    };
    let asked = repo.ask_remote(&remote, &[format!("refs/heads/{branch}")], REMOTE_QUERY_TIMEOUT).await;
    let failed = |error: GitError| SyncError::FetchFailed { remote, name: branch, line: error.reason_line() };
    Ok(!asked.map_err(failed)?.is_empty())
}

/// Fetches the newest commit of a pull request that is on no branch here.
pub async fn newest_of_pull_request(repo: &Repository, remote: &str, number: u64) -> Result<CommitSha, SyncError> {
    let what = format!("pull request #{number}");
    let failed = |error: GitError| SyncError::FetchFailed {
        remote: remote.to_owned(),
        name: what.clone(),
        line: error.reason_line(),
    };
    let there = repo.ask_remote(remote, &pull_request_refs(number), REMOTE_QUERY_TIMEOUT).await.map_err(failed)?;
    let Some((name, tip)) = there.into_iter().next() else { return Err(SyncError::NoSuch(what)) };
    repo.fetch_refspecs(remote, &[name]).await.map_err(failed)?;
    Ok(tip)
}

/// Merges `from` into the branch that is checked out at `path`, whose entry is `entry`. A conflict
/// is reverted: everything is as it was.
pub async fn merge_commit(
    repo: &Repository,
    path: &Path,
    entry: &Path,
    name: &str,
    from: &CommitSha,
) -> Result<bool, SyncError> {
    let place = GitLocation::Worktree { work_tree: path, git_dir: entry, common_dir: &repo.common_dir };
    let head = async || repo.git().new_command(place, "rev-parse").args(["--verify", "HEAD"]).run_to_text().await;
    let before = head().await?;
    let merge = repo.git().new_command(place, "merge").without_programs(BlockedPrograms::MergeDrivers).args([
        "--quiet",
        "--no-edit",
        "-m",
        &format!("Merge {name}"),
    ]);
    let merged = merge.arg(from.as_str()).with_env("GIT_OPTIONAL_LOCKS", "1").with_long_timeout().run().await;
    let Err(error) = merged else { return Ok(head().await? != before) };
    let listed =
        repo.git().new_command(place, "diff").args(["--name-only", "--diff-filter=U", "-z"]).run().await?.stdout;
    let files: Vec<String> = listed
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| parse::path_from_bytes(name).display().to_string())
        .collect();
    if files.is_empty() {
        return Err(error.into());
    }
    repo.git().new_command(place, "merge").arg("--abort").with_long_timeout().run().await?;
    Err(SyncError::Conflict { from: name.to_owned(), files })
}
