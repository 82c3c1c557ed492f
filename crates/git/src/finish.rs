//! Merging a finished branch into its base, without a checkout.
//!
//! The merge is made in git's object store and the base's branch is moved to it by compare-and-swap.
//! No file and no index is touched, except that a clean main checkout that is on the base follows.

use grove_model::{BranchName, CommitSha};

use std::str::FromStr;

use crate::parse;
use crate::{GitError, Place, Repository};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A merge commit with both histories.
    Merge,
    /// One commit with everything.
    Squash,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no way to merge; the ways are merge and squash")]
pub struct UnknownMethod(pub String);

impl FromStr for Method {
    type Err = UnknownMethod;
    fn from_str(word: &str) -> Result<Self, UnknownMethod> {
        match word {
            "merge" => Ok(Method::Merge),
            "squash" => Ok(Method::Squash),
            other => Err(UnknownMethod(other.to_owned())),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    #[error("`{branch}` conflicts with `{base}` in {}", files.join(", "))]
    Conflict { branch: BranchName, base: String, files: Vec<String> },
    #[error("`{0}` and its upstream have both gone on")]
    Diverged(String),
    #[error("`{0}` is not a branch that could be merged into")]
    NoBase(String),
    #[error("`{0}` was moved meanwhile")]
    Moved(String),
    #[error(transparent)]
    Git(#[from] GitError),
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The base's branch.
    pub base: BranchName,
    pub commit: CommitSha,
    /// The main checkout is on the base and was left behind, since it has changes.
    pub left_behind: bool,
}

/// Merges `branch`, which is at `head`, into its base `base_name` (`main`, `origin/main`). A base that
/// has it already is left as it is: whoever was cut short after the merge may ask again.
pub async fn finish(
    repo: &Repository,
    branch: &BranchName,
    head: &CommitSha,
    base_name: &str,
    method: Method,
) -> Result<Finished, FinishError> {
    let target = target(repo, base_name).await?;
    let already =
        |target: &Target| Finished { base: target.base.clone(), commit: target.tip.clone(), left_behind: false };
    if repo.is_ancestor(head, &target.tip).await? {
        return Ok(already(&target));
    }
    let tree = merged_tree(repo, branch, head, &target).await?;
    if method == Method::Squash && tree == repo.tree_of(&target.tip).await? {
        return Ok(already(&target));
    }
    let commit = commit(repo, branch, head, &target.tip, &tree, method).await?;
    let full_ref = target.base.full_ref();
    let on_base = repo.current_branch().await?.as_deref() == Some(target.base.as_str()) && !repo.bare;
    let finished = Finished { base: target.base.clone(), commit, left_behind: false };
    if on_base && is_clean(repo).await? {
        // Git moves branch, index and files together, or nothing.
        let forward = repo.git().command(Place::Dir(&repo.root), "merge");
        forward.args(["--ff-only", "--quiet", finished.commit.as_str()]).long().run().await?;
        return Ok(finished);
    }
    let why = format!("grove: {branch} is finished");
    match repo.move_ref(&full_ref, target.local.as_ref(), &finished.commit, &why).await {
        Ok(()) => Ok(Finished { left_behind: on_base, ..finished }),
        Err(GitError::Failed { .. }) if repo.commit_of(&full_ref).await? != target.local => {
            Err(FinishError::Moved(target.base.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

struct Target {
    base: BranchName,
    /// Where the local branch is, if there is one.
    local: Option<CommitSha>,
    /// What is merged into.
    tip: CommitSha,
}

/// The local branch of a base, and the newer of it and of what it follows.
async fn target(repo: &Repository, base_name: &str) -> Result<Target, FinishError> {
    let remotes = repo.remotes().await?;
    let of_remote = remotes.iter().find_map(|remote| base_name.strip_prefix(&format!("{}/", remote.name)));
    let name = of_remote.unwrap_or_else(|| base_name.strip_prefix("refs/heads/").unwrap_or(base_name));
    let base = BranchName::parse(name).map_err(|_| FinishError::NoBase(base_name.to_owned()))?;
    let local = repo.commit_of(&base.full_ref()).await?;
    let remote = match of_remote {
        Some(_) => repo.commit_of(&format!("refs/remotes/{base_name}")).await?,
        None => None,
    };
    let tip = match (&local, remote) {
        (None, None) => return Err(FinishError::NoBase(base_name.to_owned())),
        (Some(local), None) => local.clone(),
        (None, Some(remote)) => remote,
        (Some(local), Some(remote)) if repo.is_ancestor(local, &remote).await? => remote,
        (Some(local), Some(remote)) if repo.is_ancestor(&remote, local).await? => local.clone(),
        _ => return Err(FinishError::Diverged(name.to_owned())),
    };
    Ok(Target { base, local, tip })
}

async fn merged_tree(
    repo: &Repository,
    branch: &BranchName,
    head: &CommitSha,
    target: &Target,
) -> Result<String, FinishError> {
    let merge = repo.command("merge-tree").args(["--write-tree", "-z", "--name-only", "--no-messages"]);
    let output = merge.args([target.tip.as_str(), head.as_str()]).long().run_for(&[0, 1]).await?;
    let mut fields = output.stdout.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let tree = fields.next().map(|tree| String::from_utf8_lossy(tree).into_owned()).unwrap_or_default();
    if output.code == 0 {
        return Ok(tree);
    }
    let files = fields.map(|name| parse::path(name).display().to_string()).collect();
    Err(FinishError::Conflict { branch: branch.clone(), base: target.base.to_string(), files })
}

async fn commit(
    repo: &Repository,
    branch: &BranchName,
    head: &CommitSha,
    base: &CommitSha,
    tree: &str,
    method: Method,
) -> Result<CommitSha, FinishError> {
    // Whoever made the last commit made the work.
    let author = repo.command("show").args(["-s", "--format=%an%n%ae%n%aI", head.as_str()]).text().await?;
    let mut author = author.lines();
    let [name, mail, date] = [author.next(), author.next(), author.next()].map(Option::unwrap_or_default);
    let message = match method {
        Method::Merge => format!("Merge branch '{branch}'\n"),
        Method::Squash => {
            let log = repo.command("log").args(["--reverse", "--no-merges", "--format=* %s"]);
            let subjects = log.arg(format!("{base}..{head}")).text().await?;
            format!("{branch}\n\n{subjects}\n")
        }
    };
    let make = repo.command("commit-tree").args([tree, "-p", base.as_str()]);
    let make = if method == Method::Merge { make.args(["-p", head.as_str()]) } else { make };
    let make = make.env("GIT_AUTHOR_NAME", name).env("GIT_AUTHOR_EMAIL", mail).env("GIT_AUTHOR_DATE", date);
    let id = make.args(["-F", "-"]).stdin(message).text().await?;
    Ok(id.parse().map_err(|_| GitError::unreadable("commit-tree", id))?)
}

/// Whether the main checkout has no changes to tracked files and nothing in progress.
async fn is_clean(repo: &Repository) -> Result<bool, GitError> {
    if crate::removal::look::in_progress(&repo.common_dir).is_some() {
        return Ok(false);
    }
    let status = repo.git().command(Place::Dir(&repo.root), "status");
    let status = status.args(["--porcelain=v2", "--branch", "-z", "--untracked-files=no"]).long().run().await?;
    Ok(!parse::status(&status.stdout)?.is_changed())
}
