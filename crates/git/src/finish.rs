//! Merges a finished branch into its base, without a checkout.
//!
//! The merge is made in git's object store and the base's branch is moved to it by compare-and-swap. No file
//! and no index is touched, with one exception: checkouts that are on the base (the main one or other
//! worktrees) are updated together with it. If one of them is not clean, nothing is merged: if the base moved
//! under it, the finished files would show as deleted there, and the next `git commit -a` would remove them.

use std::path::PathBuf;
use std::str::FromStr;

use grove_model::{BranchName, CommitSha};

use crate::command::planted::BlockedPrograms;
use crate::removal::check;
use crate::{GitError, GitLocation, Repository, links, parse};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishMethod {
    /// A merge commit with both histories.
    Merge,
    /// One commit with everything.
    Squash,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no way to merge; the ways are merge and squash")]
pub struct FinishMethodError(pub String);

impl FromStr for FinishMethod {
    type Err = FinishMethodError;
    fn from_str(word: &str) -> Result<Self, FinishMethodError> {
        match word {
            "merge" => Ok(FinishMethod::Merge),
            "squash" => Ok(FinishMethod::Squash),
            other => Err(FinishMethodError(other.to_owned())),
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
    /// The base is checked out elsewhere, and moving it there could lose something.
    #[error("`{base}` is checked out at {}, which {why}", path.display())]
    DirtyCheckout { base: String, path: PathBuf, why: String },
    #[error(transparent)]
    Git(#[from] GitError),
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishOutcome {
    /// The base's branch.
    pub base: BranchName,
    pub commit: CommitSha,
    /// Checkouts that are on the base and were updated with it.
    pub updated: Vec<PathBuf>,
}

/// Merges `branch`, which is at `head`, into its base `base_name` (`main`, `origin/main`). A base that
/// already contains it is left as it is: a caller that was interrupted after the merge may call again.
pub async fn merge_into_base(
    repo: &Repository,
    branch: &BranchName,
    head: &CommitSha,
    base_name: &str,
    method: FinishMethod,
) -> Result<FinishOutcome, FinishError> {
    let target = find_merge_target(repo, base_name).await?;
    let already = |target: &FinishTarget| FinishOutcome {
        base: target.base.clone(),
        commit: target.tip.clone(),
        updated: vec![],
    };
    if repo.is_ancestor(head, &target.tip).await? {
        return Ok(already(&target));
    }
    let checkouts = checkouts_of(repo, &target.base).await?;
    // Exists while checkouts are being updated: the commit that they are being updated to.
    let pending = format!("refs/grove/finish/{branch}");
    let cut_short = repo.commit_of(&pending).await?;
    for checkout in &checkouts {
        let Some(why) = checkout.find_obstacle(repo).await? else { continue };
        match (&cut_short, &target.local) {
            (Some(commit), Some(base)) if checkout.is_exactly(repo, commit).await? => {
                checkout.update_checkout(repo, commit, base).await?;
            }
            _ => return Err(checkout.dirty_checkout_error(&target.base, why)),
        }
    }
    let tree = merged_tree(repo, branch, head, &target).await?;
    if method == FinishMethod::Squash && tree == repo.tree_of(&target.tip).await? {
        return Ok(already(&target));
    }
    let commit = create_merge_commit(repo, branch, head, &target.tip, &tree, method).await?;
    repo.new_command("update-ref").args([pending.as_str(), commit.as_str()]).run().await?;
    let finished = move_base(repo, &target, &checkouts, commit, &format!("grove: {branch} is finished")).await;
    repo.new_command("update-ref").args(["-d", &pending]).run().await?;
    finished
}

/// Moves the base and the checkouts that are on it to a commit, or changes nothing.
async fn move_base(
    repo: &Repository,
    target: &FinishTarget,
    checkouts: &[BaseCheckout],
    commit: CommitSha,
    why: &str,
) -> Result<FinishOutcome, FinishError> {
    let mut updated: Vec<&BaseCheckout> = Vec::new();
    if let Some(from) = &target.local {
        for checkout in checkouts {
            if let Err(error) = checkout.update_checkout(repo, from, &commit).await {
                take_back(repo, &updated, &commit, from).await;
                return Err(match error {
                    GitError::Failed { line, .. } => {
                        checkout.dirty_checkout_error(&target.base, format!("is in the way: {line}"))
                    }
                    other => other.into(),
                });
            }
            updated.push(checkout);
        }
    }
    let full_ref = target.base.full_ref();
    match repo.move_ref(&full_ref, target.local.as_ref(), &commit, why).await {
        Ok(()) => {
            let updated = updated.iter().map(|checkout| checkout.path.clone()).collect();
            Ok(FinishOutcome { base: target.base.clone(), commit, updated })
        }
        Err(error) => {
            if let Some(from) = &target.local {
                take_back(repo, &updated, &commit, from).await;
            }
            match error {
                GitError::Failed { .. } if repo.commit_of(&full_ref).await? != target.local => {
                    Err(FinishError::Moved(target.base.to_string()))
                }
                other => Err(other.into()),
            }
        }
    }
}

/// Tells whether merging `branch`, which is at `head`, into its base would conflict.
pub async fn would_conflict(
    repo: &Repository,
    branch: &BranchName,
    head: &CommitSha,
    base_name: &str,
) -> Result<bool, FinishError> {
    let target = find_merge_target(repo, base_name).await?;
    match merged_tree(repo, branch, head, &target).await {
        Ok(_) => Ok(false),
        Err(FinishError::Conflict { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns the paths of all checkouts that are on a base (`main`, `origin/main`): they change with
/// it.
pub async fn checkouts_on_base(repo: &Repository, base_name: &str) -> Result<Vec<PathBuf>, FinishError> {
    let target = find_merge_target(repo, base_name).await?;
    Ok(checkouts_of(repo, &target.base).await?.into_iter().map(|checkout| checkout.path).collect())
}

/// A checkout that is on the base.
struct BaseCheckout {
    path: PathBuf,
    git_dir: PathBuf,
}

/// Returns all checkouts that are on a branch, or that return to it when an operation there ends.
async fn checkouts_of(repo: &Repository, branch: &BranchName) -> Result<Vec<BaseCheckout>, FinishError> {
    let mut found = Vec::new();
    for (number, entry) in repo.list_worktrees().await?.into_iter().enumerate() {
        if matches!(entry.head, parse::WorktreeHead::Bare) {
            continue;
        }
        let unreadable = |error: std::io::Error| GitError::unreadable_output("worktree list", error.to_string());
        // The main checkout comes first.
        let git_dir = if number == 0 {
            Some(repo.common_dir.clone())
        } else {
            let entries = links::list_entries(&repo.common_dir).map_err(unreadable)?;
            entries.into_iter().find(|dir| links::worktree_of(dir).is_ok_and(|path| path.as_ref() == Some(&entry.path)))
        };
        let on = entry.branch_name() == Some(branch.as_str());
        let waiting = git_dir.as_deref().is_some_and(|dir| check::is_waiting_for(dir, branch));
        match git_dir {
            Some(git_dir) if on || waiting => found.push(BaseCheckout { path: entry.path, git_dir }),
            None if on => {
                let (base, path) = (branch.to_string(), entry.path);
                let why = "git cannot find any more".to_owned();
                return Err(FinishError::DirtyCheckout { base, path, why });
            }
            _ => {}
        }
    }
    Ok(found)
}

impl BaseCheckout {
    fn git_location<'a>(&'a self, repo: &'a Repository) -> GitLocation<'a> {
        GitLocation::Worktree { work_tree: &self.path, git_dir: &self.git_dir, common_dir: &repo.common_dir }
    }

    fn dirty_checkout_error(&self, base: &BranchName, why: String) -> FinishError {
        FinishError::DirtyCheckout { base: base.to_string(), path: self.path.clone(), why }
    }

    /// Returns the reason why the checkout cannot be updated, if there is one. Untracked files are no reason,
    /// unless they are in the way; git itself refuses those.
    async fn find_obstacle(&self, repo: &Repository) -> Result<Option<String>, GitError> {
        if !self.path.is_dir() {
            return Ok(Some("is not there".to_owned()));
        }
        if let Some(operation) = check::in_progress(&self.git_dir) {
            return Ok(Some(format!("has a {operation} in progress")));
        }
        let status = repo.git().new_command(self.git_location(repo), "status");
        let flags = ["--porcelain=v2", "--branch", "-z", "--untracked-files=no", "--ignore-submodules=none"];
        let status = status.args(flags).inspecting_worktree().run().await?;
        if parse::parse_status(&status.stdout)?.is_changed() {
            return Ok(Some("has uncommitted changes".to_owned()));
        }
        let hidden = check::hidden_changes(repo, &self.path, &self.git_dir).await?;
        Ok(hidden.first().map(|file| format!("has changes that are hidden from git ({})", file.display())))
    }

    /// Tells whether index and files are those of a commit: no other process has changed them since
    /// we wrote them.
    async fn is_exactly(&self, repo: &Repository, commit: &CommitSha) -> Result<bool, GitError> {
        let index = repo.git().new_command(self.git_location(repo), "diff-index").args([
            "--quiet",
            "--cached",
            commit.as_str(),
        ]);
        let files =
            repo.git().new_command(self.git_location(repo), "diff-files").args(["--quiet", "--ignore-submodules=none"]);
        Ok(index.inspecting_index().run_for(&[0, 1]).await?.code == 0
            && files.inspecting_worktree().run_for(&[0, 1]).await?.code == 0
            && check::hidden_changes(repo, &self.path, &self.git_dir).await?.is_empty())
    }

    /// Updates index and files from one commit to another, or changes nothing.
    async fn update_checkout(&self, repo: &Repository, from: &CommitSha, to: &CommitSha) -> Result<(), GitError> {
        let refresh = repo.git().new_command(self.git_location(repo), "update-index").args(["-q", "--refresh"]);
        refresh.with_long_timeout().run_for(&[0, 1]).await?;
        let update = repo.git().new_command(self.git_location(repo), "read-tree").args(["-m", "-u"]);
        update.args(["--no-recurse-submodules", from.as_str(), to.as_str()]).with_long_timeout().run().await.map(drop)
    }
}

/// Moves checkouts that were updated back to the base's commit, because the base did not move after
/// all.
async fn take_back(repo: &Repository, updated: &[&BaseCheckout], from: &CommitSha, to: &CommitSha) {
    for checkout in updated {
        if let Err(error) = checkout.update_checkout(repo, from, to).await {
            tracing::error!("{} could not be taken back to {}: {error}", checkout.path.display(), to.short_sha());
        }
    }
}

struct FinishTarget {
    base: BranchName,
    /// The commit of the local branch, if it exists.
    local: Option<CommitSha>,
    /// The commit that is merged into.
    tip: CommitSha,
}

/// Finds the local branch of a base, and the newer of its tip and its upstream's tip.
async fn find_merge_target(repo: &Repository, base_name: &str) -> Result<FinishTarget, FinishError> {
    let remotes = repo.list_remotes().await?;
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
    Ok(FinishTarget { base, local, tip })
}

async fn merged_tree(
    repo: &Repository,
    branch: &BranchName,
    head: &CommitSha,
    target: &FinishTarget,
) -> Result<String, FinishError> {
    let merge = repo.new_command("merge-tree").without_programs(BlockedPrograms::All).args([
        "--write-tree",
        "-z",
        "--name-only",
        "--no-messages",
    ]);
    let output = merge.args([target.tip.as_str(), head.as_str()]).with_long_timeout().run_for(&[0, 1]).await?;
    let mut fields = output.stdout.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let tree = fields.next().map(|tree| String::from_utf8_lossy(tree).into_owned()).unwrap_or_default();
    if output.code == 0 {
        return Ok(tree);
    }
    let files = fields.map(|name| parse::path_from_bytes(name).display().to_string()).collect();
    Err(FinishError::Conflict { branch: branch.clone(), base: target.base.to_string(), files })
}

async fn create_merge_commit(
    repo: &Repository,
    branch: &BranchName,
    head: &CommitSha,
    base: &CommitSha,
    tree: &str,
    method: FinishMethod,
) -> Result<CommitSha, FinishError> {
    // The author of the last commit is the author of the work.
    let author = repo.new_command("show").args(["-s", "--format=%an%n%ae%n%aI", head.as_str()]).run_to_text().await?;
    let mut author = author.lines();
    let [name, mail, date] = [author.next(), author.next(), author.next()].map(Option::unwrap_or_default);
    let message = match method {
        FinishMethod::Merge => format!("Merge branch '{branch}'\n"),
        FinishMethod::Squash => {
            let log = repo.new_command("log").args(["--reverse", "--no-merges", "--format=* %s"]);
            let subjects = log.arg(format!("{base}..{head}")).run_to_text().await?;
            format!("{branch}\n\n{subjects}\n")
        }
    };
    let make = repo.new_command("commit-tree").args([tree, "-p", base.as_str()]);
    let make = if method == FinishMethod::Merge { make.args(["-p", head.as_str()]) } else { make };
    let make =
        make.with_env("GIT_AUTHOR_NAME", name).with_env("GIT_AUTHOR_EMAIL", mail).with_env("GIT_AUTHOR_DATE", date);
    let id = make.args(["-F", "-"]).with_stdin(message).run_to_text().await?;
    Ok(id.parse().map_err(|_| GitError::unreadable_output("commit-tree", id))?)
}
