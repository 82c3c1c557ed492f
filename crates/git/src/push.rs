//! A branch goes to its remote: exactly one commit to exactly one branch, never by force.

use grove_model::{BranchName, CommitSha};

use crate::base::tracking_ref;
use crate::network::Way;
use crate::upstream::{Upstream, lock_config};
use crate::{Git, GitError, Place, Repository};

#[derive(Debug, thiserror::Error)]
pub enum PushError {
    #[error("`{0}` is not there any more")]
    NoBranch(BranchName),
    #[error("`{branch}` has no commits of its own yet")]
    NothingToPush { branch: BranchName },
    /// The remote has commits there that are not here.
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

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    pub remote: String,
    pub at: CommitSha,
    /// Whether the remote got anything.
    pub new: bool,
}

/// Pushes a branch as it is now, and notes that it follows the remote's of the same name. `base` is
/// where the work began: what has nothing beyond it is not pushed, unless the remote has it already.
pub async fn push(
    repo: &Repository,
    branch: &BranchName,
    remote: &str,
    base: Option<&CommitSha>,
) -> Result<Pushed, PushError> {
    let tracking = tracking_ref(remote, branch);
    let refs = repo.refs(&[branch.full_ref(), tracking.clone()]).await?;
    let at = refs.branch(branch).map(|line| line.at.clone()).ok_or_else(|| PushError::NoBranch(branch.clone()))?;
    if let Some(base) = base.filter(|_| refs.get(&tracking).is_none())
        && repo.is_ancestor(&at, base).await?
    {
        return Err(PushError::NothingToPush { branch: branch.clone() });
    }
    let flags = ["--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no"];
    let access = repo.access_remote(remote, Way::Push).await?;
    let pushed = access.command("push", &flags, &[format!("{at}:{}", branch.full_ref())]).run_for(&[0, 1]).await;
    let output = pushed.map_err(|error| PushError::Failed {
        branch: branch.clone(),
        remote: remote.to_owned(),
        line: error.line(),
    })?;
    let new = match verdict(&String::from_utf8_lossy(&output.stdout), branch) {
        Some(Verdict::New) => true,
        Some(Verdict::Same) => false,
        Some(Verdict::Behind) => return Err(PushError::Behind { branch: branch.clone(), remote: remote.to_owned() }),
        Some(Verdict::Refused(why)) => {
            return Err(PushError::Refused { branch: branch.clone(), remote: remote.to_owned(), why });
        }
        None => {
            let line = output.stderr.lines().next_back().unwrap_or("it said nothing").trim().to_owned();
            return Err(PushError::Failed { branch: branch.clone(), remote: remote.to_owned(), line });
        }
    };
    // It is there, whatever becomes of the note.
    if let Err(error) = follow(repo, branch, remote).await {
        tracing::warn!("that {branch} follows {remote} could not be noted: {error}");
    }
    Ok(Pushed { remote: remote.to_owned(), at, new })
}

/// The branch that a remote says is its default one; `None`: it names none.
pub async fn default_of(repo: &Repository, remote: &str) -> Result<Option<String>, GitError> {
    let access = repo.access_remote(remote, Way::Fetch).await?;
    let output = access.command("ls-remote", &["--symref"], &["HEAD".to_owned()]).run().await?.stdout;
    let text = String::from_utf8_lossy(&output).into_owned();
    Ok(text.lines().find_map(|line| Some(line.strip_prefix("ref: refs/heads/")?.split_once('\t')?.0.to_owned())))
}

/// How many files of a worktree a push leaves behind, because they are not committed.
pub async fn uncommitted(git: &Git, place: Place<'_>) -> Result<usize, GitError> {
    // Without a look into submodules: git would run there what their own configuration names.
    let flags = ["--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=dirty"];
    let output = git.command(place, "status").args(flags).inspecting_worktree().run().await?;
    Ok(output.stdout.iter().filter(|byte| **byte == 0).count())
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    New,
    Same,
    Behind,
    Refused(String),
}

/// What `push --porcelain` says of a branch: `FLAG\tFROM:TO\tSUMMARY (REASON)`.
fn verdict(said: &str, branch: &BranchName) -> Option<Verdict> {
    let to = format!(":{}", branch.full_ref());
    let mut lines = said.lines().filter_map(|line| line.split_once('\t'));
    let (flag, rest) = lines.find(|(_, rest)| rest.split('\t').next().is_some_and(|names| names.ends_with(&to)))?;
    let summary = rest.split_once('\t').map_or("", |(_, summary)| summary);
    Some(match flag {
        "=" => Verdict::Same,
        "!" if summary.starts_with("[rejected]") => Verdict::Behind,
        "!" => {
            let why = summary.rsplit_once(" (").map_or(summary, |(_, why)| why.trim_end_matches(')'));
            Verdict::Refused(why.to_owned())
        }
        _ => Verdict::New,
    })
}

/// Notes the branch's upstream.
async fn follow(repo: &Repository, branch: &BranchName, remote: &str) -> Result<(), PushError> {
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
            ("*", "[new branch]", Verdict::New),
            (" ", "1234..5678", Verdict::New),
            ("=", "[up to date]", Verdict::Same),
            ("!", "[rejected] (fetch first)", Verdict::Behind),
            ("!", "[rejected] (non-fast-forward)", Verdict::Behind),
            (
                "!",
                "[remote rejected] (protected branch hook declined)",
                Verdict::Refused("protected branch hook declined".to_owned()),
            ),
        ] {
            assert_eq!(verdict(&line(flag, rest), &branch), Some(expected), "{flag} {rest}");
        }
        assert_eq!(verdict("fatal: x", &branch), None);
        assert_eq!(verdict(&line("*", "[new branch]"), &BranchName::parse("x").unwrap()), None, "another branch");
    }
}
