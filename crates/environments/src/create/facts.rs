//! What the resolver has to know, asked of the store, the disk and git.

use std::path::Path;

use grove_git::Repository;
use grove_git::base::choose_remote;
use grove_git::checked_out::CheckedOut;
use grove_model::{
    AdoptedFrom, BranchName, Codebase, CommitSha, Environment, EnvironmentId, Kind, PrHead, Work, WorkKey,
};

use crate::create::Hints;
use crate::create::decide::{Candidate, Facts, Head, Presence, Relation, Stranger};
use crate::create::foreign::{is_automakers, is_skills};
use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::provider::Found;
use crate::provider::disk::{OnDisk, on_disk};

impl Isolation {
    /// Everything about the work's possible environments but what a new one would need.
    pub(super) async fn facts(
        &self,
        codebase: &Codebase,
        work: &Work,
        hints: &Hints,
        bound: Option<EnvironmentId>,
    ) -> Result<Facts, IsolationError> {
        let environments = self.store.environments(codebase.id, false).await?;
        let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
        let mut facts = Facts { fork: work.is_from_fork(), ..Facts::default() };
        let mut seen = Vec::new();
        let bound = environments.iter().filter(|e| Some(e.id) == bound).map(|e| (Relation::Bound, e));
        for (relation, environment) in bound.chain(related(work, hints, &environments)) {
            if seen.contains(&environment.id) {
                continue;
            }
            seen.push(environment.id);
            let presence = Presence::from(on_disk(environment, &codebase.git_common_dir));
            let own = matches!(relation, Relation::Bound | Relation::SameWork);
            let head = match work.pull_request_head() {
                Some(head) if !own && presence == Presence::There => find_head(&repo, environment, head).await?,
                _ => Head::NotKnown,
            };
            facts.candidates.push(Candidate { relation, environment: environment.clone(), presence, head });
        }
        Ok(facts)
    }

    /// Worktrees made by others that fit: at the expected path, or on the branch.
    pub(super) async fn strangers(
        &self,
        codebase: &Codebase,
        work: &Work,
        hints: &Hints,
        expected: (&Path, &BranchName),
    ) -> Result<Vec<Stranger>, IsolationError> {
        let (path, branch) = expected;
        let pull_request = match work {
            Work::PullRequest { head: PrHead::SameRepo { branch, at }, .. } => Some((branch, at.as_ref())),
            _ => None,
        };
        // Most works need no look at git's list.
        if work.is_from_fork() || (!path.exists() && pull_request.is_none() && hints.suggested_branch.is_none()) {
            return Ok(Vec::new());
        }
        let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
        let tip = match pull_request {
            Some((branch, None)) => self.last_seen_tip(&repo, branch).await?,
            _ => None,
        };
        let pull_request = pull_request.map(|(branch, at)| (branch, at.or(tip.as_ref())));
        let ours = self.store.environments(codebase.id, false).await?;
        let mut strangers = Vec::new();
        for found in self.provider.list(codebase).await? {
            if ours.iter().any(|environment| environment.path == found.path) {
                continue;
            }
            let on = |name: &str| found.branch.as_deref() == Some(name);
            let suggested = hints.suggested_branch.as_ref().is_some_and(|name| on(name.as_str()));
            let from = if found.path == path && on(branch.as_str()) {
                Some(AdoptedFrom::Path)
            } else if suggested || fits_pull_request(&repo, &found, pull_request).await? {
                Some(AdoptedFrom::Branch)
            } else {
                None
            };
            let Some(from) = from else { continue };
            let flaw = match self.provider.adopt(codebase, &found.path).await? {
                Some(_) => None,
                None => Some("it is not there, or belongs to another clone".to_owned()),
            };
            let from = self.maker(codebase, &found).unwrap_or(from);
            strangers.push(Stranger { found, from, flaw });
        }
        Ok(strangers)
    }

    /// Where a branch of the remote was last seen.
    async fn last_seen_tip(&self, repo: &Repository, branch: &BranchName) -> Result<Option<CommitSha>, IsolationError> {
        let remotes = repo.remotes().await?;
        match choose_remote(self.settings.remote(), &remotes).unwrap_or_default() {
            Some(remote) => Ok(repo.commit_of(&format!("refs/remotes/{remote}/{branch}")).await?),
            None => Ok(None),
        }
    }

    /// Which tool made a worktree, where it left word of it.
    fn maker(&self, codebase: &Codebase, found: &Found) -> Option<AdoptedFrom> {
        if is_skills(self.settings.user_home(), codebase, found) {
            return Some(AdoptedFrom::Skill);
        }
        is_automakers(codebase, found).then_some(AdoptedFrom::Automaker)
    }
}

impl From<OnDisk> for Presence {
    fn from(found: OnDisk) -> Self {
        match found {
            OnDisk::Worktree(_) => Presence::There,
            OnDisk::Gone => Presence::Gone,
            OnDisk::NotMounted => Presence::NotMounted,
            OnDisk::Elsewhere(node) => Presence::Elsewhere(node),
            OnDisk::Unknown(why) => Presence::Unknown(why),
        }
    }
}

/// The environments that may serve a work, in order.
fn related<'a>(work: &Work, hints: &Hints, environments: &'a [Environment]) -> Vec<(Relation, &'a Environment)> {
    let key = work.key();
    let with = |wanted: &WorkKey| environments.iter().filter(|e| e.work == *wanted).collect::<Vec<_>>();
    let numbered =
        |kind: Kind, number: u64| WorkKey::new(kind, &number.to_string()).map(|key| with(&key)).unwrap_or_default();
    let mut found: Vec<(Relation, &Environment)> = with(key).into_iter().map(|e| (Relation::SameWork, e)).collect();
    // A review and its pull request are served by one.
    let twin = match key.kind() {
        Kind::Pr => Some(Kind::Review),
        Kind::Review => Some(Kind::Pr),
        _ => None,
    };
    if let (Some(twin), Some(number)) = (twin, key.number()) {
        found.extend(numbered(twin, number).into_iter().map(|e| (Relation::SameWork, e)));
    }
    for &number in &hints.linked_issues {
        found.extend(numbered(Kind::Issue, number).into_iter().map(|e| (Relation::LinkedIssue(number), e)));
        found.extend(
            environments
                .iter()
                .filter(|e| e.related_issues.contains(&number))
                .map(|e| (Relation::LinkedIssue(number), e)),
        );
    }
    for &number in &hints.linked_prs {
        let prs = [Kind::Pr, Kind::Review].into_iter().flat_map(|kind| numbered(kind, number));
        found.extend(prs.map(|e| (Relation::LinkedPr(number), e)));
        found.extend(
            environments.iter().filter(|e| e.related_prs.contains(&number)).map(|e| (Relation::LinkedPr(number), e)),
        );
    }
    if let Some(number) = key.number() {
        let linked = |e: &&Environment| match key.kind() {
            Kind::Issue => e.related_issues.contains(&number),
            _ => e.related_prs.contains(&number),
        };
        let relation =
            if key.kind() == Kind::Issue { Relation::LinkedIssue(number) } else { Relation::LinkedPr(number) };
        found.extend(environments.iter().filter(linked).map(|e| (relation.clone(), e)));
    }
    found
}

/// Finds out whether the head of a pull request is in an environment: on its branch, or contained in it.
async fn find_head(repo: &Repository, environment: &Environment, head: &PrHead) -> Result<Head, IsolationError> {
    let now = repo.checked_out(&environment.path).await?;
    if head.branch() == Some(&environment.branch)
        || head.branch().is_some_and(|head| now.as_ref().is_some_and(|now| now.is_on(head)))
    {
        return Ok(Head::There);
    }
    let Some(sha) = head.commit() else {
        // A branch that is known and is another one says enough.
        return Ok(if head.branch().is_some() { Head::NotThere } else { Head::NotKnown });
    };
    let tip = match now {
        Some(CheckedOut::Detached(at)) => Some(at),
        Some(CheckedOut::Branch(branch)) => repo.commit_of(&branch.full_ref()).await?,
        None => repo.commit_of(&environment.branch.full_ref()).await?,
    };
    let known = repo.commit_of(sha.as_str()).await?.is_some();
    match tip {
        Some(tip) if known && repo.is_ancestor(sha, &tip).await? => Ok(Head::There),
        _ => Ok(Head::NotThere),
    }
}

/// Whether a worktree is on the pull request's branch, or on its name with dashes and with a
/// history that meets it.
async fn fits_pull_request(
    repo: &Repository,
    found: &Found,
    pull_request: Option<(&BranchName, Option<&CommitSha>)>,
) -> Result<bool, IsolationError> {
    let (Some((branch, sha)), Some(on)) = (pull_request, &found.branch) else { return Ok(false) };
    if on == branch.as_str() {
        return Ok(true);
    }
    let (true, Some(sha), Some(head)) = (*on == branch.as_str().replace('/', "-"), sha, &found.head) else {
        return Ok(false);
    };
    if repo.commit_of(sha.as_str()).await?.is_none() {
        return Ok(false);
    }
    Ok(repo.is_ancestor(sha, head).await? || repo.is_ancestor(head, sha).await?)
}
