//! Pushes a branch to its remote: exactly one commit to exactly one branch, never by force.

use grove_model::{BranchName, CommitSha};

use crate::base::tracking_ref;
use crate::network::TransferDirection;
use crate::upstream::{Upstream, lock_config};
use crate::{Git, GitError, GitLocation, Repository};

#[derive(Debug, thiserror::Error)]
pub enum PushError {
    #[error("`{0}` is not there any more")]
    NoBranch(BranchName),
    #[error("`{branch}` has no commits of its own yet")]
    NothingToPush { branch: BranchName },
    /// The remote's branch has commits that are not here.
    #[error("`{branch}` has commits on `{remote}` that are not here")]
    Behind { branch: BranchName, remote: String },
    #[error("`{remote}` refuses `{branch}`: {why}")]
    Refused { branch: BranchName, remote: String, why: String },
    #[error("`{branch}` could not be pushed to `{remote}`: {line}")]
    Failed { branch: BranchName, remote: String, line: String },
    #[error("the repository's directory cannot be written: {0}")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Git(#[from] GitError),
}

/// The result of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushOutcome {
    pub remote: String,
    pub at: CommitSha,
    /// Set if the remote received anything.
    pub new: bool,
}

/// Pushes a branch as it is now, and sets the remote's branch of the same name as its upstream. `base` is
/// where the work began: a branch without commits beyond it is not pushed, unless the remote has it already.
pub async fn push_branch(
    repo: &Repository,
    branch: &BranchName,
    remote: &str,
    base: Option<&CommitSha>,
) -> Result<PushOutcome, PushError> {
    let tracking = tracking_ref(remote, branch);
    let refs = repo.list_refs(&[branch.full_ref(), tracking.clone()]).await?;
    let at = refs.branch_ref(branch).map(|line| line.at.clone()).ok_or_else(|| PushError::NoBranch(branch.clone()))?;
    if let Some(base) = base.filter(|_| refs.get(&tracking).is_none())
        && repo.is_ancestor(&at, base).await?
    {
        return Err(PushError::NothingToPush { branch: branch.clone() });
    }
    let flags = ["--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no"];
    let access = repo.access_remote(remote, TransferDirection::Push).await?;
    let pushed = access.remote_command("push", &flags, &[format!("{at}:{}", branch.full_ref())]).run_for(&[0, 1]).await;
    let output = pushed.map_err(|error| PushError::Failed {
        branch: branch.clone(),
        remote: remote.to_owned(),
        line: error.reason_line(),
    })?;
    let new = match parse_push_result(&String::from_utf8_lossy(&output.stdout), branch) {
        Some(PushResult::New) => true,
        Some(PushResult::Same) => false,
        Some(PushResult::Behind) => {
            return Err(PushError::Behind { branch: branch.clone(), remote: remote.to_owned() });
        }
        Some(PushResult::Refused(why)) => {
            return Err(PushError::Refused { branch: branch.clone(), remote: remote.to_owned(), why });
        }
        None => {
            let line = output.stderr.lines().next_back().unwrap_or("it said nothing").trim().to_owned();
            return Err(PushError::Failed { branch: branch.clone(), remote: remote.to_owned(), line });
        }
    };
    // The push succeeded, even if the upstream cannot be recorded.
    if let Err(error) = record_upstream(repo, branch, remote).await {
        tracing::warn!("that {branch} follows {remote} could not be noted: {error}");
    }
    Ok(PushOutcome { remote: remote.to_owned(), at, new })
}

/// Returns the branch that a remote says is its default one; `None` if it names none.
pub async fn default_of(repo: &Repository, remote: &str) -> Result<Option<String>, GitError> {
    let access = repo.access_remote(remote, TransferDirection::Fetch).await?;
    let output = access.remote_command("ls-remote", &["--symref"], &["HEAD".to_owned()]).run().await?.stdout;
    let text = String::from_utf8_lossy(&output).into_owned();
    Ok(text.lines().find_map(|line| Some(line.strip_prefix("ref: refs/heads/")?.split_once('\t')?.0.to_owned())))
}

/// Counts the files of a worktree that a push leaves behind, because they are not committed.
pub async fn count_uncommitted(git: &Git, place: GitLocation<'_>) -> Result<usize, GitError> {
    // Without looking into submodules: git would run programs there that their own configuration
    // names.
    let flags = ["--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=dirty"];
    let output = git.new_command(place, "status").args(flags).inspecting_worktree().run().await?;
    Ok(output.stdout.iter().filter(|byte| **byte == 0).count())
}

#[derive(Debug, PartialEq, Eq)]
enum PushResult {
    New,
    Same,
    Behind,
    Refused(String),
}

/// Parses the line of `push --porcelain` for a branch: `FLAG\tFROM:TO\tSUMMARY (REASON)`.
fn parse_push_result(said: &str, branch: &BranchName) -> Option<PushResult> {
    let to = format!(":{}", branch.full_ref());
    let mut lines = said.lines().filter_map(|line| line.split_once('\t'));
    let (flag, rest) = lines.find(|(_, rest)| rest.split('\t').next().is_some_and(|names| names.ends_with(&to)))?;
    let summary = rest.split_once('\t').map_or("", |(_, summary)| summary);
    Some(match flag {
        "=" => PushResult::Same,
        "!" if summary.starts_with("[rejected]") => PushResult::Behind,
        "!" => {
            let why = summary.rsplit_once(" (").map_or(summary, |(_, why)| why.trim_end_matches(')'));
            PushResult::Refused(why.to_owned())
        }
        _ => PushResult::New,
    })
}

/// Records the branch's upstream.
async fn record_upstream(repo: &Repository, branch: &BranchName, remote: &str) -> Result<(), PushError> {
    let lock = lock_config(repo).await?;
    Ok(repo.write_upstream(&lock, branch, &Upstream::on_remote(remote, branch)).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_of_a_branch() {
        let branch = BranchName::parse("feature/x").unwrap();
        let line = |flag: &str, rest: &str| format!("To https://h/a/b\n{flag}\tabc:refs/heads/feature/x\t{rest}\nDone");
        for (flag, rest, expected) in [
            ("*", "[new branch]", PushResult::New),
            (" ", "1234..5678", PushResult::New),
            ("=", "[up to date]", PushResult::Same),
            ("!", "[rejected] (fetch first)", PushResult::Behind),
            ("!", "[rejected] (non-fast-forward)", PushResult::Behind),
            (
                "!",
                "[remote rejected] (protected branch hook declined)",
                PushResult::Refused("protected branch hook declined".to_owned()),
            ),
        ] {
            assert_eq!(parse_push_result(&line(flag, rest), &branch), Some(expected), "{flag} {rest}");
        }
        assert_eq!(parse_push_result("fatal: x", &branch), None);
        assert_eq!(
            parse_push_result(&line("*", "[new branch]"), &BranchName::parse("x").unwrap()),
            None,
            "another branch"
        );
    }
}
