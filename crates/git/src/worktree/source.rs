//! Which branch, at which commit.
//!
//! A branch that is there is used as it is. It is moved in two cases only, both by
//! compare-and-swap: a pull request's own branch forward to what the remote has, and an old
//! `pr-N-review` to the pull request's head, its own commits pinned first.

use grove_model::{BranchName, CommitSha, Moment, Nonce};

use super::withdraw::delete_own_tracking;
use super::{AddError, BranchIntent, UpstreamIntent};
use crate::base::{
    Asked, Base, BaseWish, FetchPolicy, NETWORK, Need, no_answer, pull_request_refs, reflog_reason, tracking_ref,
};
use crate::holder::find_holder;
use crate::upstream::{Upstream, lock_config};
use crate::{GitError, Repository};

/// What a work needs of git.
#[derive(Clone, Debug)]
pub enum Source {
    /// Issue, task, thread: a branch of our own, from the base unless it exists.
    OwnBranch,
    /// A pull request from a branch of this repository.
    PullRequestBranch,
    /// A pull request from a fork, or a review: the forge's ref for it, at `pinned` when known.
    PullRequestHead { number: u64, pinned: Option<CommitSha> },
}

#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    pub branch: &'a BranchName,
    pub source: Source,
    pub remote: Option<&'a str>,
    /// Where the base comes from: usually the same.
    pub base_remote: Option<&'a str>,
    pub base: BaseWish<'a>,
    pub fetch: FetchPolicy,
}

/// The answer: everything that [`super::add`] needs, found without changing anything but
/// remote-tracking refs.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub branch: BranchName,
    /// Where the branch is, or will be.
    pub at: CommitSha,
    /// Where it is now, if it exists.
    pub(super) was: Option<CommitSha>,
    /// Commits of its own that no other ref would hold once it is moved.
    pub(super) pin_first: bool,
    pub(super) upstream: Option<UpstreamIntent>,
    /// What the work will be compared with; a pull request does without where none is known.
    pub base: Option<Base>,
    pub warnings: Vec<String>,
}

impl Prepared {
    pub(super) fn intent(&self) -> BranchIntent {
        BranchIntent { from: self.was.clone(), to: self.at.clone(), upstream: self.upstream.clone() }
    }

    /// Says where the commits are that a branch had for itself before it is moved.
    pub(super) fn moved_branch_warning(&self) -> Option<String> {
        let was = self.was.as_ref().filter(|_| self.pin_first)?;
        let (branch, old) = (&self.branch, was.short());
        Some(format!(
            "`{branch}` had commits of its own and was moved from {old} to the pull request's head {}; \
             the old commits are kept, and `git branch {branch}-{old} {old}` brings them back",
            self.at.short()
        ))
    }

    /// Finds it. When that fails, no remote-tracking ref of the branch is left that this creation made.
    pub async fn find(repo: &Repository, wanted: &Wanted<'_>) -> Result<Self, AddError> {
        let found = Self::try_find(repo, wanted).await;
        if let (Err(_), Some(creation)) = (&found, repo.remote_options.creation)
            && let Err(error) = delete_own_tracking(repo, wanted.branch, creation).await
        {
            // The first error is the one to report.
            tracing::warn!(branch = %wanted.branch, "undoing a fetch: {error}");
        }
        found
    }

    async fn try_find(repo: &Repository, wanted: &Wanted<'_>) -> Result<Self, AddError> {
        let branch = wanted.branch;
        let around = repo.refs(&Repository::patterns_around(branch)).await?;
        if let Some(other) = around.in_the_way_of(branch) {
            return Err(AddError::BranchInTheWay { branch: branch.clone(), other: other.to_owned() });
        }
        let here = around.branch(branch).map(|line| line.at.clone());
        if here.is_some() {
            let holder = find_holder(&repo.worktrees().await?, branch.as_str());
            if let Some((at, state)) = holder {
                return Err(AddError::BranchHeld { branch: branch.clone(), at, state });
            }
        }
        match &wanted.source {
            Source::OwnBranch => own_branch(repo, wanted, here).await,
            Source::PullRequestBranch => pull_request_branch(repo, wanted, here).await,
            Source::PullRequestHead { number, pinned } => {
                pull_request_head(repo, wanted, here, *number, pinned.as_ref()).await
            }
        }
    }
}

async fn own_branch(repo: &Repository, wanted: &Wanted<'_>, here: Option<CommitSha>) -> Result<Prepared, AddError> {
    let branch = wanted.branch;
    let same = wanted.base_remote == wanted.remote;
    let (base, mut asked) = repo.base(&wanted.base, wanted.base_remote, wanted.fetch, same.then_some(branch)).await?;
    let warnings = base_warning(&base, &asked).into_iter().collect();
    if let (false, Some(remote)) = (same, wanted.remote) {
        asked = repo.ask(remote, None, Some(branch), wanted.fetch, Need::CanDoWithout).await?;
    }
    let there = match wanted.remote.map(|remote| tracking_ref(remote, branch)) {
        Some(name) => repo.refs(std::slice::from_ref(&name)).await?.get(&name).map(|line| line.at.clone()),
        None => None,
    };
    // Known to be on the remote, and not known to be gone from there since.
    let there = there.filter(|_| !asked.lacks(branch));
    if wanted.base.explicit.is_some() && (here.is_some() || there.is_some()) {
        return Err(AddError::BranchExists(branch.clone()));
    }
    let at = here.clone().or(there).unwrap_or_else(|| base.sha.clone());
    Ok(Prepared { branch: branch.clone(), at, was: here, pin_first: false, upstream: None, base: Some(base), warnings })
}

fn base_warning(base: &Base, asked: &Asked) -> Option<String> {
    let Asked::Failed { line } = asked else { return None };
    let age = base.committed.map(|then| format!("; its newest commit is {} old", Moment::now().age_since(then)));
    let age = age.unwrap_or_default();
    Some(format!("the remote could not be asked ({line}), so `{}` is used as it was last seen{age}", base.name))
}

async fn pull_request_branch(
    repo: &Repository,
    wanted: &Wanted<'_>,
    here: Option<CommitSha>,
) -> Result<Prepared, AddError> {
    let branch = wanted.branch;
    let remote = wanted.remote.ok_or(AddError::NoRemote)?;
    if wanted.fetch != FetchPolicy::Never {
        let missing = repo.update_tracking(remote, &[branch], NETWORK).await.map_err(|error| match error {
            crate::base::BaseError::Git(error) => fetch_failed(remote, &format!("the branch `{branch}`"), &error),
            other => other.into(),
        })?;
        if !missing.is_empty() {
            return Err(AddError::NoSuchBranch { branch: branch.clone(), remote: remote.to_owned() });
        }
    }
    let tracking = tracking_ref(remote, branch);
    let refs = repo.refs(std::slice::from_ref(&tracking)).await?;
    let Some(theirs) = refs.get(&tracking).map(|line| line.at.clone()) else {
        return Err(AddError::NoSuchBranch { branch: branch.clone(), remote: remote.to_owned() });
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
    Ok(Prepared { branch: branch.clone(), at, was: here, pin_first: false, upstream: Some(upstream), base, warnings })
}

async fn pull_request_head(
    repo: &Repository,
    wanted: &Wanted<'_>,
    was: Option<CommitSha>,
    number: u64,
    pinned: Option<&CommitSha>,
) -> Result<Prepared, AddError> {
    let remote = wanted.remote.ok_or(AddError::NoRemote)?;
    let what = format!("pull request #{number}");
    let failed = |error: &GitError| fetch_failed(remote, &what, error);
    let there = repo.ask_remote(remote, &pull_request_refs(number), NETWORK).await.map_err(|error| failed(&error))?;
    let Some((name, tip)) = there.into_iter().next() else {
        return Err(AddError::NoSuchPullRequest { number, remote: remote.to_owned() });
    };
    // Into no ref: the branch that is made next will hold the commits.
    repo.fetch(remote, &[name]).await.map_err(|error| failed(&error))?;
    let at = match pinned {
        None => tip,
        Some(sha) => {
            if repo.commit_of(sha.as_str()).await?.is_none() {
                // The pull request was pushed over since; some servers still give the commit.
                let fetched = repo.fetch(remote, &[sha.to_string()]).await;
                if fetched.is_err() || repo.commit_of(sha.as_str()).await?.is_none() {
                    return Err(AddError::NoSuchCommit { sha: sha.clone(), number, remote: remote.to_owned() });
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
    Ok(Prepared { branch: wanted.branch.clone(), at, was, pin_first, upstream: None, base, warnings: Vec::new() })
}

/// A pull request's commits are its own; its base only tells later whether it was merged.
async fn known_base(repo: &Repository, wanted: &Wanted<'_>) -> Option<Base> {
    match repo.base(&wanted.base, wanted.base_remote, wanted.fetch, None).await {
        Ok((base, _)) => Some(base),
        Err(error) => {
            tracing::info!(branch = %wanted.branch, "no base recorded: {error}");
            None
        }
    }
}

fn fetch_failed(remote: &str, what: &str, error: &GitError) -> AddError {
    AddError::FetchFailed { remote: remote.to_owned(), what: what.to_owned(), line: no_answer(error) }
}

/// Where the commits of a branch are kept that this creation replaces.
pub(super) fn pin_name(branch: &BranchName, nonce: Nonce) -> String {
    format!("refs/grove/trash/{nonce}/{branch}")
}

/// Makes the branch, or moves it, or leaves it, exactly as prepared. What a failure leaves is for
/// `put_branch_back`.
pub(super) async fn make_branch(repo: &Repository, prepared: &Prepared, nonce: Nonce) -> Result<(), AddError> {
    let name = prepared.branch.full_ref();
    let failed = |error: GitError| AddError::Branch { branch: prepared.branch.clone(), line: error.line() };
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

/// Writes the one thing that a creation adds to the repository's config.
pub(super) async fn set_upstream(
    repo: &Repository,
    branch: &BranchName,
    upstream: &UpstreamIntent,
) -> Result<(), AddError> {
    let lock = lock_config(repo).await.map_err(AddError::io("the repository's directory cannot be written"))?;
    Ok(repo.write_upstream(&lock, branch, &upstream.to).await?)
}
