//! Gathers the facts for a decision from the store, the disk and git.

use std::path::Path;

use grove_git::Repository;
use grove_git::base::choose_remote;
use grove_git::checked_out::CheckedOut;
use grove_model::{
    AdoptedFrom, BranchName, Codebase, CommitSha, Environment, EnvironmentId, PullRequestHead, Work, WorkKey, WorkKind,
};

use crate::create::CreateHints;
use crate::create::decide::{
    DecisionFacts, EnvironmentCandidate, ForeignCandidate, HeadPresence, WorkRelation, WorktreePresence,
};
use crate::create::foreign::{is_automakers, is_skills};
use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::provider::FoundEnvironment;
use crate::provider::disk::PathState;

impl Environments {
    /// Gathers the facts about the possible environments of the work, except those that only a new one needs.
    pub(super) async fn gather_facts(
        &self,
        codebase: &Codebase,
        work: &Work,
        hints: &CreateHints,
        bound: Option<EnvironmentId>,
    ) -> Result<DecisionFacts, EnvironmentError> {
        let environments = self.store.list_environments(codebase.id, false).await?;
        let repo = self.open_repository(codebase);
        let mut facts = DecisionFacts { fork: work.is_from_fork(), ..DecisionFacts::default() };
        let mut seen = Vec::new();
        let bound = environments.iter().filter(|e| Some(e.id) == bound).map(|e| (WorkRelation::Bound, e));
        for (relation, environment) in bound.chain(related_environments(work, hints, &environments)) {
            if seen.contains(&environment.id) {
                continue;
            }
            seen.push(environment.id);
            let presence = WorktreePresence::from(self.provider.path_state(codebase, environment));
            let own = matches!(relation, WorkRelation::Bound | WorkRelation::SameWork);
            let head = match work.pull_request_head() {
                Some(head) if !own && presence == WorktreePresence::There => {
                    let now = self.provider.checked_out(codebase, &environment.path).await?;
                    find_head(&repo, environment, now, head).await?
                }
                _ => HeadPresence::NotKnown,
            };
            facts.candidates.push(EnvironmentCandidate { relation, environment: environment.clone(), presence, head });
        }
        Ok(facts)
    }

    /// Finds worktrees made by other tools or people that fit: at the expected path, or on the branch.
    pub(super) async fn find_foreign_worktrees(
        &self,
        codebase: &Codebase,
        work: &Work,
        hints: &CreateHints,
        expected: (&Path, &BranchName),
    ) -> Result<Vec<ForeignCandidate>, EnvironmentError> {
        let (path, branch) = expected;
        let pull_request = match work {
            Work::PullRequest { head: PullRequestHead::SameRepo { branch, at }, .. } => Some((branch, at.as_ref())),
            _ => None,
        };
        // Most works do not need git's list of worktrees.
        if work.is_from_fork() || (!path.exists() && pull_request.is_none() && hints.suggested_branch.is_none()) {
            return Ok(Vec::new());
        }
        let repo = self.open_repository(codebase);
        let tip = match pull_request {
            Some((branch, None)) => self.last_seen_tip(&repo, branch).await?,
            _ => None,
        };
        let pull_request = pull_request.map(|(branch, at)| (branch, at.or(tip.as_ref())));
        let ours = self.store.list_environments(codebase.id, false).await?;
        let mut strangers = Vec::new();
        for found in self.provider.list_environments(codebase).await? {
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
            let flaw = match self.provider.check_adoptable(codebase, &found.path).await? {
                Some(_) => None,
                None => Some("it is not there, or belongs to another clone".to_owned()),
            };
            let from = self.detect_creating_tool(codebase, &found).unwrap_or(from);
            strangers.push(ForeignCandidate { found, from, flaw });
        }
        Ok(strangers)
    }

    /// Returns the last known commit of a branch of the remote.
    async fn last_seen_tip(
        &self,
        repo: &Repository,
        branch: &BranchName,
    ) -> Result<Option<CommitSha>, EnvironmentError> {
        let remotes = repo.list_remotes().await?;
        match choose_remote(self.settings.current().remote_name(), &remotes).unwrap_or_default() {
            Some(remote) => Ok(repo.commit_of(&format!("refs/remotes/{remote}/{branch}")).await?),
            None => Ok(None),
        }
    }

    /// Detects which tool created a worktree, where the tool left metadata.
    fn detect_creating_tool(&self, codebase: &Codebase, found: &FoundEnvironment) -> Option<AdoptedFrom> {
        if is_skills(self.settings.current().user_home(), codebase, found) {
            return Some(AdoptedFrom::Skill);
        }
        is_automakers(codebase, found).then_some(AdoptedFrom::Automaker)
    }
}

impl From<PathState> for WorktreePresence {
    fn from(found: PathState) -> Self {
        match found {
            PathState::Worktree(_) => WorktreePresence::There,
            PathState::Gone => WorktreePresence::Gone,
            PathState::NotMounted => WorktreePresence::NotMounted,
            PathState::Elsewhere(node) => WorktreePresence::Elsewhere(node),
            PathState::Unknown(why) => WorktreePresence::Unknown(why),
        }
    }
}

/// Returns the environments that may serve a work, in order.
fn related_environments<'a>(
    work: &Work,
    hints: &CreateHints,
    environments: &'a [Environment],
) -> Vec<(WorkRelation, &'a Environment)> {
    let key = work.work_key();
    let with = |wanted: &WorkKey| environments.iter().filter(|e| e.work == *wanted).collect::<Vec<_>>();
    let numbered =
        |kind: WorkKind, number: u64| WorkKey::new(kind, &number.to_string()).map(|key| with(&key)).unwrap_or_default();
    let mut found: Vec<(WorkRelation, &Environment)> =
        with(key).into_iter().map(|e| (WorkRelation::SameWork, e)).collect();
    // A review and its pull request share one environment.
    let twin = match key.work_kind() {
        WorkKind::Pr => Some(WorkKind::Review),
        WorkKind::Review => Some(WorkKind::Pr),
        _ => None,
    };
    if let (Some(twin), Some(number)) = (twin, key.forge_number()) {
        found.extend(numbered(twin, number).into_iter().map(|e| (WorkRelation::SameWork, e)));
    }
    for &number in &hints.linked_issues {
        found.extend(numbered(WorkKind::Issue, number).into_iter().map(|e| (WorkRelation::LinkedIssue(number), e)));
        found.extend(
            environments
                .iter()
                .filter(|e| e.related_issues.contains(&number))
                .map(|e| (WorkRelation::LinkedIssue(number), e)),
        );
    }
    for &number in &hints.linked_prs {
        let prs = [WorkKind::Pr, WorkKind::Review].into_iter().flat_map(|kind| numbered(kind, number));
        found.extend(prs.map(|e| (WorkRelation::LinkedPr(number), e)));
        found.extend(
            environments
                .iter()
                .filter(|e| e.related_prs.contains(&number))
                .map(|e| (WorkRelation::LinkedPr(number), e)),
        );
    }
    if let Some(number) = key.forge_number() {
        let linked = |e: &&Environment| match key.work_kind() {
            WorkKind::Issue => e.related_issues.contains(&number),
            _ => e.related_prs.contains(&number),
        };
        let relation = if key.work_kind() == WorkKind::Issue {
            WorkRelation::LinkedIssue(number)
        } else {
            WorkRelation::LinkedPr(number)
        };
        found.extend(environments.iter().filter(linked).map(|e| (relation.clone(), e)));
    }
    found
}

/// Checks whether an environment contains the head of a pull request: on its branch, or in its history.
async fn find_head(
    repo: &Repository,
    environment: &Environment,
    now: Option<CheckedOut>,
    head: &PullRequestHead,
) -> Result<HeadPresence, EnvironmentError> {
    if head.branch_name() == Some(&environment.branch)
        || head.branch_name().is_some_and(|head| now.as_ref().is_some_and(|now| now.is_on(head)))
    {
        return Ok(HeadPresence::There);
    }
    let Some(sha) = head.head_commit() else {
        // A known branch that is another one is proof enough.
        return Ok(if head.branch_name().is_some() { HeadPresence::NotThere } else { HeadPresence::NotKnown });
    };
    let tip = match now {
        Some(CheckedOut::Detached(at)) => Some(at),
        Some(CheckedOut::Branch(branch)) => repo.commit_of(&branch.full_ref()).await?,
        None => repo.commit_of(&environment.branch.full_ref()).await?,
    };
    let known = repo.commit_of(sha.as_str()).await?.is_some();
    match tip {
        Some(tip) if known && repo.is_ancestor(sha, &tip).await? => Ok(HeadPresence::There),
        _ => Ok(HeadPresence::NotThere),
    }
}

/// Tells whether a worktree is on the pull request's branch, or on a branch with the same name in dashes
/// whose history meets it.
async fn fits_pull_request(
    repo: &Repository,
    found: &FoundEnvironment,
    pull_request: Option<(&BranchName, Option<&CommitSha>)>,
) -> Result<bool, EnvironmentError> {
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
