//! Finds the branch of a new worktree, and its commit.
//!
//! An existing branch is used as it is. It is moved in two cases only, both by compare-and-swap: a
//! pull request's own branch forward to the remote's commit, and an old `pr-N-review` to the pull
//! request's head, its own commits pinned first.

use grove_model::{BranchName, CommitSha, Moment, Nonce};

use super::withdraw::delete_own_tracking;
use super::{AddWorktreeError, BranchIntent, UpstreamIntent};
use crate::base::{
    AnswerNecessity, BaseCommit, BasePreference, FetchPolicy, REMOTE_QUERY_TIMEOUT, RemoteAnswer, no_answer,
    pull_request_refs, reflog_reason, tracking_ref,
};
use crate::holder::find_holder;
use crate::upstream::{Upstream, lock_config};
use crate::{GitError, Repository};

/// The kind of branch that the work needs.
#[derive(Clone, Debug)]
pub enum WorktreeSource {
    /// Issue, task, thread: a branch of our own, from the base unless it exists.
    OwnBranch,
    /// A pull request from a branch of this repository.
    PullRequestBranch,
    /// A pull request from a fork, or a review: the forge's ref for it, at `pinned` when known.
    PullRequestHead { number: u64, pinned: Option<CommitSha> },
}

#[derive(Clone, Debug)]
pub struct WorktreeRequest<'a> {
    pub branch: &'a BranchName,
    pub source: WorktreeSource,
    pub remote: Option<&'a str>,
    /// The remote of the base: usually the same as `remote`.
    pub base_remote: Option<&'a str>,
    pub base: BasePreference<'a>,
    pub fetch: FetchPolicy,
}

/// Everything that [`super::add_worktree`] needs, found without changing anything but
/// remote-tracking refs.
#[derive(Clone, Debug)]
pub struct PreparedWorktree {
    pub branch: BranchName,
    /// The commit of the branch once it is prepared.
    pub at: CommitSha,
    /// The current commit of the branch, if it exists.
    pub(super) was: Option<CommitSha>,
    /// Set if the branch has commits that no other ref would hold once it is moved.
    pub(super) pin_first: bool,
    pub(super) upstream: Option<UpstreamIntent>,
    /// The base that the work is compared with; a pull request does without if none is known.
    pub base: Option<BaseCommit>,
    pub warnings: Vec<String>,
}

impl PreparedWorktree {
    pub(super) fn branch_intent(&self) -> BranchIntent {
        BranchIntent { from: self.was.clone(), to: self.at.clone(), upstream: self.upstream.clone() }
    }

    /// Returns a warning that says where the branch's own commits are kept when it is moved.
    pub(super) fn moved_branch_warning(&self) -> Option<String> {
        let was = self.was.as_ref().filter(|_| self.pin_first)?;
        let (branch, old) = (&self.branch, was.short_sha());
        Some(format!(
            "`{branch}` had commits of its own and was moved from {old} to the pull request's head {}; \
             the old commits are kept, and `git branch {branch}-{old} {old}` brings them back",
            self.at.short_sha()
        ))
    }

    /// Finds the source. If that fails, no remote-tracking ref of the branch is left that this creation made.
    pub async fn find_source(repo: &Repository, wanted: &WorktreeRequest<'_>) -> Result<Self, AddWorktreeError> {
        let found = Self::try_find(repo, wanted).await;
        if let (Err(_), Some(creation)) = (&found, repo.remote_options.creation)
            && let Err(error) = delete_own_tracking(repo, wanted.branch, creation).await
        {
            // The first error is the one to report.
            tracing::warn!(branch = %wanted.branch, "undoing a fetch: {error}");
        }
        found
    }

    async fn try_find(repo: &Repository, wanted: &WorktreeRequest<'_>) -> Result<Self, AddWorktreeError> {
        let branch = wanted.branch;
        let around = repo.list_refs(&Repository::patterns_around(branch)).await?;
        if let Some(other) = around.in_the_way_of(branch) {
            return Err(AddWorktreeError::BranchInTheWay { branch: branch.clone(), other: other.to_owned() });
        }
        let here = around.branch_ref(branch).map(|line| line.at.clone());
        if here.is_some() {
            let holder = find_holder(&repo.list_worktrees().await?, branch.as_str());
            if let Some((at, state)) = holder {
                return Err(AddWorktreeError::BranchHeld { branch: branch.clone(), at, state });
            }
        }
        match &wanted.source {
            WorktreeSource::OwnBranch => own_branch(repo, wanted, here).await,
            WorktreeSource::PullRequestBranch => pull_request_branch(repo, wanted, here).await,
            WorktreeSource::PullRequestHead { number, pinned } => {
                pull_request_head(repo, wanted, here, *number, pinned.as_ref()).await
            }
        }
    }
}

async fn own_branch(
    repo: &Repository,
    wanted: &WorktreeRequest<'_>,
    here: Option<CommitSha>,
) -> Result<PreparedWorktree, AddWorktreeError> {
    let branch = wanted.branch;
    let same = wanted.base_remote == wanted.remote;
    let (base, mut asked) =
        repo.find_base(&wanted.base, wanted.base_remote, wanted.fetch, same.then_some(branch)).await?;
    let warnings = base_warning(&base, &asked).into_iter().collect();
    if let (false, Some(remote)) = (same, wanted.remote) {
        asked = repo.query_remote(remote, None, Some(branch), wanted.fetch, AnswerNecessity::CanDoWithout).await?;
    }
    let there = match wanted.remote.map(|remote| tracking_ref(remote, branch)) {
        Some(name) => repo.list_refs(std::slice::from_ref(&name)).await?.get(&name).map(|line| line.at.clone()),
        None => None,
    };
    // Known to be on the remote, and not known to have been deleted there since.
    let there = there.filter(|_| !asked.is_missing(branch));
    if wanted.base.explicit.is_some() && (here.is_some() || there.is_some()) {
        return Err(AddWorktreeError::BranchExists(branch.clone()));
    }
    let at = here.clone().or(there).unwrap_or_else(|| base.sha.clone());
    Ok(PreparedWorktree {
        branch: branch.clone(),
        at,
        was: here,
        pin_first: false,
        upstream: None,
        base: Some(base),
        warnings,
    })
}

fn base_warning(base: &BaseCommit, asked: &RemoteAnswer) -> Option<String> {
    let RemoteAnswer::Failed { line } = asked else { return None };
    let age = base.committed.map(|then| format!("; its newest commit is {} old", Moment::now().age_since(then)));
    let age = age.unwrap_or_default();
    Some(format!("the remote could not be asked ({line}), so `{}` is used as it was last seen{age}", base.name))
}

async fn pull_request_branch(
    repo: &Repository,
    wanted: &WorktreeRequest<'_>,
    here: Option<CommitSha>,
) -> Result<PreparedWorktree, AddWorktreeError> {
    let branch = wanted.branch;
    let remote = wanted.remote.ok_or(AddWorktreeError::NoRemote)?;
    if wanted.fetch != FetchPolicy::Never {
        let missing =
            repo.update_tracking(remote, &[branch], REMOTE_QUERY_TIMEOUT).await.map_err(|error| match error {
                crate::base::BaseError::Git(error) => fetch_failed(remote, &format!("the branch `{branch}`"), &error),
                other => other.into(),
            })?;
        if !missing.is_empty() {
            return Err(AddWorktreeError::NoSuchBranch { branch: branch.clone(), remote: remote.to_owned() });
        }
    }
    let tracking = tracking_ref(remote, branch);
    let refs = repo.list_refs(std::slice::from_ref(&tracking)).await?;
    let Some(theirs) = refs.get(&tracking).map(|line| line.at.clone()) else {
        return Err(AddWorktreeError::NoSuchBranch { branch: branch.clone(), remote: remote.to_owned() });
    };
    let mut warnings = Vec::new();
    let at = match &here {
        Some(ours) if *ours != theirs && !repo.is_ancestor(ours, &theirs).await? => {
            warnings.push(format!("`{branch}` has commits here that `{remote}/{branch}` has not; it is used as it is"));
            ours.clone()
        }
        _ => theirs,
    };
    let base = known_base(repo, wanted).await;
    let upstream = UpstreamIntent { from: repo.read_upstream(branch).await?, to: Upstream::on_remote(remote, branch) };
    Ok(PreparedWorktree {
        branch: branch.clone(),
        at,
        was: here,
        pin_first: false,
        upstream: Some(upstream),
        base,
        warnings,
    })
}

async fn pull_request_head(
    repo: &Repository,
    wanted: &WorktreeRequest<'_>,
    was: Option<CommitSha>,
    number: u64,
    pinned: Option<&CommitSha>,
) -> Result<PreparedWorktree, AddWorktreeError> {
    let remote = wanted.remote.ok_or(AddWorktreeError::NoRemote)?;
    let what = format!("pull request #{number}");
    let failed = |error: &GitError| fetch_failed(remote, &what, error);
    let there = repo
        .ask_remote(remote, &pull_request_refs(number), REMOTE_QUERY_TIMEOUT)
        .await
        .map_err(|error| failed(&error))?;
    let Some((name, tip)) = there.into_iter().next() else {
        return Err(AddWorktreeError::NoSuchPullRequest { number, remote: remote.to_owned() });
    };
    // Fetched into no ref: the branch that is created next will hold the commits.
    repo.fetch_refspecs(remote, &[name]).await.map_err(|error| failed(&error))?;
    let at = match pinned {
        None => tip,
        Some(sha) => {
            if repo.commit_of(sha.as_str()).await?.is_none() {
                // The pull request was force-pushed since; some servers still provide the commit.
                let fetched = repo.fetch_refspecs(remote, &[sha.to_string()]).await;
                if fetched.is_err() || repo.commit_of(sha.as_str()).await?.is_none() {
                    return Err(AddWorktreeError::NoSuchCommit { sha: sha.clone(), number, remote: remote.to_owned() });
                }
            }
            sha.clone()
        }
    };
    let pin_first = match &was {
        Some(old) => !repo.is_ancestor(old, &at).await?,
        None => false,
    };
    let base = known_base(repo, wanted).await;
    Ok(PreparedWorktree {
        branch: wanted.branch.clone(),
        at,
        was,
        pin_first,
        upstream: None,
        base,
        warnings: Vec::new(),
    })
}

/// Finds the base of a pull request. Its commits are its own; the base only tells later whether it
/// was merged.
async fn known_base(repo: &Repository, wanted: &WorktreeRequest<'_>) -> Option<BaseCommit> {
    match repo.find_base(&wanted.base, wanted.base_remote, wanted.fetch, None).await {
        Ok((base, _)) => Some(base),
        Err(error) => {
            tracing::info!(branch = %wanted.branch, "no base recorded: {error}");
            None
        }
    }
}

fn fetch_failed(remote: &str, what: &str, error: &GitError) -> AddWorktreeError {
    AddWorktreeError::FetchFailed { remote: remote.to_owned(), what: what.to_owned(), line: no_answer(error) }
}

/// Returns the ref that keeps the commits of a branch that this creation replaces.
pub(super) fn pin_name(branch: &BranchName, nonce: Nonce) -> String {
    format!("refs/grove/trash/{nonce}/{branch}")
}

/// Creates the branch, moves it or leaves it, exactly as prepared. `put_branch_back` cleans up
/// after a failure.
pub(super) async fn make_branch(
    repo: &Repository,
    prepared: &PreparedWorktree,
    nonce: Nonce,
) -> Result<(), AddWorktreeError> {
    let name = prepared.branch.full_ref();
    let failed =
        |error: GitError| AddWorktreeError::Branch { branch: prepared.branch.clone(), line: error.reason_line() };
    let was = prepared.was.as_ref();
    if was == Some(&prepared.at) {
        return Ok(());
    }
    if let (Some(was), true) = (was, prepared.pin_first) {
        let pinned = pin_name(&prepared.branch, nonce);
        repo.move_ref(&pinned, None, was, &reflog_reason(nonce)).await.map_err(failed)?;
    }
    repo.move_ref(&name, was, &prepared.at, &reflog_reason(nonce)).await.map_err(failed)
}

/// Writes the upstream, the only setting that a creation adds to the repository's config.
pub(super) async fn set_upstream(
    repo: &Repository,
    branch: &BranchName,
    upstream: &UpstreamIntent,
) -> Result<(), AddWorktreeError> {
    let lock =
        lock_config(repo).await.map_err(AddWorktreeError::io_error("the repository's directory cannot be written"))?;
    Ok(repo.write_upstream(&lock, branch, &upstream.to).await?)
}
