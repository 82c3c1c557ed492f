//! Environments as people and scripts see them: the record together with the facts from git and the disk.

use std::collections::HashMap;
use std::path::PathBuf;

use grove_git::verdict::MergeVerdict;
use grove_model::{
    Codebase, CommitSha, Environment, EnvironmentMetadata, GitOperation, MergeMethod, Moment, State, Status,
};

use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::inspect::merge_status::MergeStatus;
use crate::provider::disk::DiskFacts;

/// Returns the state of an environment: the first one that holds.
pub fn state_of(
    environment: &Environment,
    facts: Option<&Result<DiskFacts, String>>,
    merge_status: Option<&MergeStatus>,
) -> State {
    let present = match facts {
        Some(Ok(DiskFacts::Present(present))) => Some(present),
        _ => None,
    };
    match environment.status {
        Status::Failed => State::Failed,
        Status::Hibernated => State::Hibernated,
        Status::Destroyed => State::Missing,
        // Checked before the disk facts: an environment that is being created is not on disk yet.
        Status::Creating | Status::Initializing => State::Creating,
        _ if matches!(facts, Some(Err(_))) => State::Broken,
        _ if matches!(facts, Some(Ok(DiskFacts::Missing | DiskFacts::NotMounted))) => State::Missing,
        Status::Merging | Status::Removing => State::Merging,
        Status::Active => match present {
            Some(present) if present.is_unfinished() => State::Dirty,
            _ => match merge_status {
                Some(merge_status) if merge_status.is_merged() => State::Merged,
                Some(merge_status) if merge_status.stale => State::Stale,
                Some(MergeStatus { verdict: MergeVerdict::Fresh { .. }, .. })
                    if !present.is_some_and(|present| present.is_detached()) =>
                {
                    State::Fresh
                }
                _ => State::Active,
            },
        },
    }
}

/// An environment as people and scripts see it.
#[derive(Clone, Debug)]
pub struct EnvironmentView {
    pub id: String,
    pub codebase: String,
    /// The work in a few words.
    pub title: Option<String>,
    pub workflow_type: String,
    pub workflow_id: String,
    /// The branch that is checked out; if none is, the recorded one.
    pub branch: String,
    /// The recorded branch, if another one is checked out.
    pub recorded_branch: Option<String>,
    pub path: PathBuf,
    pub provider: String,
    pub status: Status,
    pub state: State,
    pub merged_by: Option<MergeMethod>,
    pub ahead: Option<u64>,
    pub behind: Option<u64>,
    /// The branch of the remote that the checked-out branch follows.
    pub upstream: Option<String>,
    pub upstream_ahead: Option<u64>,
    pub upstream_behind: Option<u64>,
    pub dirty: bool,
    pub untracked: usize,
    /// The number of files with changes that are not staged.
    pub changed: usize,
    pub staged: usize,
    pub conflicted: usize,
    pub operation: Option<GitOperation>,
    /// A commit is checked out, and no branch.
    pub detached: bool,
    pub adopted: bool,
    pub base: Option<String>,
    pub base_sha: Option<String>,
    /// The time of the commit that the work began from.
    pub base_at: Option<Moment>,
    pub head_sha: Option<String>,
    pub conversations: Vec<String>,
    pub created_by_platform: Option<String>,
    pub created_at: Moment,
    pub last_activity_at: Moment,
    pub size_bytes: Option<i64>,
    pub metadata: EnvironmentMetadata,
    pub related_issues: Vec<u64>,
    pub related_prs: Vec<u64>,
    /// The reason why nothing is known, or the error.
    pub error: Option<String>,
}

impl Environments {
    /// Returns the views of a codebase's environments; `all` includes destroyed ones.
    pub async fn environment_views(
        &self,
        codebase: &Codebase,
        all: bool,
    ) -> Result<Vec<EnvironmentView>, EnvironmentError> {
        let environments = self.current_environments(codebase, all).await?;
        self.views_of(codebase, environments).await
    }

    pub async fn views_of(
        &self,
        codebase: &Codebase,
        environments: Vec<Environment>,
    ) -> Result<Vec<EnvironmentView>, EnvironmentError> {
        let conversations = self.store.conversations_in(codebase.id).await?;
        let now = Moment::now();
        let (ended, mut live): (Vec<_>, Vec<_>) = environments.into_iter().partition(|e| e.status == Status::Destroyed);
        let (facts, statuses, bases, sizes) = tokio::join!(
            self.provider.inspect(codebase, &live),
            self.merge_statuses(codebase, &live, now),
            self.base_times(codebase, live.iter().chain(&ended)),
            self.measure_some(codebase, &live, now)
        );
        let statuses = statuses?;
        for environment in &mut live {
            if let Some(size) = sizes.get(&environment.id) {
                environment.size_bytes = *size;
            }
        }
        let live = live.into_iter().zip(facts.into_iter().map(Some));
        let mut views: Vec<EnvironmentView> = live
            .chain(ended.into_iter().map(|environment| (environment, None)))
            .map(|(environment, facts)| {
                let conversations = conversations.get(&environment.id).cloned().unwrap_or_default();
                let merge_status = statuses.get(&environment.id);
                let base_at = environment.base_sha.as_ref().and_then(|base| bases.get(base)).copied();
                build_view(codebase, &environment, facts.as_ref(), merge_status, base_at, conversations)
            })
            .collect();
        views.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(views)
    }

    /// Returns the times of the commits that these environments began from, as far as git knows them.
    async fn base_times(
        &self,
        codebase: &Codebase,
        environments: impl Iterator<Item = &Environment>,
    ) -> HashMap<CommitSha, Moment> {
        let bases = environments.filter_map(|environment| environment.base_sha.clone()).collect();
        self.open_repository(codebase).commit_times(&bases).await.unwrap_or_else(|error| {
            tracing::warn!("the ages of the bases are not known: {error}");
            HashMap::new()
        })
    }

    /// Returns the view of one environment whose facts are already known. Only the list shows the age of the
    /// base, so that a caller that waits for a new environment does not wait for it too.
    pub async fn view_of_new(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        facts: DiskFacts,
    ) -> Result<EnvironmentView, EnvironmentError> {
        let mut conversations = self.store.conversations_in(codebase.id).await?;
        let conversations = conversations.remove(&environment.id).unwrap_or_default();
        let merge_status = if environment.base_sha.is_some() && environment.base_sha == environment.head_sha {
            // A new environment needs no merge check.
            let verdict = MergeVerdict::Fresh { behind: 0 };
            let head = environment.head_sha.clone();
            let last_active = environment.last_activity_at;
            Some(MergeStatus { verdict, head, checked_out: None, last_active, stale: false })
        } else {
            let statuses = self.merge_statuses(codebase, std::slice::from_ref(environment), Moment::now()).await?;
            statuses.into_values().next()
        };
        Ok(build_view(codebase, environment, Some(&Ok(facts)), merge_status.as_ref(), None, conversations))
    }
}

fn build_view(
    codebase: &Codebase,
    environment: &Environment,
    facts: Option<&Result<DiskFacts, String>>,
    merge_status: Option<&MergeStatus>,
    base_at: Option<Moment>,
    conversations: Vec<String>,
) -> EnvironmentView {
    let present = match facts {
        Some(Ok(DiskFacts::Present(present))) => Some(present),
        _ => None,
    };
    let git_status = present.map(|present| &present.status);
    let counts = git_status.map(|status| status.counts.clone()).unwrap_or_default();
    let upstream = git_status.and_then(|status| status.ahead_behind);
    let (now, recorded) = (git_status.and_then(|status| status.branch.as_deref()), environment.branch.as_str());
    let apart = merge_status.and_then(|merge_status| merge_status.verdict.ahead_behind());
    let head = present.and_then(|present| present.status.head.clone()).or_else(|| environment.head_sha.clone());
    // An environment that is in the trash, or gone, takes no room at its path.
    let gone = matches!(facts, None | Some(Ok(DiskFacts::Missing | DiskFacts::NotMounted)));
    let unknown = facts.and_then(|facts| facts.as_ref().err().cloned());
    EnvironmentView {
        id: environment.id.to_string(),
        codebase: codebase.name.clone(),
        title: environment.metadata.title.clone(),
        workflow_type: environment.work.work_kind().to_string(),
        workflow_id: environment.work.id().to_owned(),
        branch: now.unwrap_or(recorded).to_owned(),
        recorded_branch: now.filter(|now| *now != recorded).map(|_| recorded.to_owned()),
        path: environment.path.clone(),
        provider: environment.provider.clone(),
        status: environment.status,
        state: state_of(environment, facts, merge_status),
        merged_by: merge_status.and_then(|merge_status| merge_status.verdict.merged_by()),
        ahead: apart.map(|(ahead, _)| ahead),
        behind: apart.map(|(_, behind)| behind),
        upstream: git_status.and_then(|status| status.upstream.clone()),
        upstream_ahead: upstream.map(|(ahead, _)| ahead),
        upstream_behind: upstream.map(|(_, behind)| behind),
        dirty: git_status.is_some_and(|status| !status.is_clean()),
        untracked: counts.untracked,
        changed: counts.unstaged + counts.submodules,
        staged: counts.staged,
        conflicted: counts.conflicts,
        operation: present.and_then(|present| present.operation),
        detached: present.is_some_and(|present| present.is_detached()),
        adopted: environment.is_adopted(),
        base: environment.base_ref.clone(),
        base_sha: environment.base_sha.as_ref().map(ToString::to_string),
        base_at,
        head_sha: head.map(|sha| sha.to_string()),
        conversations,
        created_by_platform: environment.created_by_platform.clone(),
        created_at: environment.created_at,
        last_activity_at: merge_status.map_or(environment.last_activity_at, |merge_status| merge_status.last_active),
        size_bytes: environment.size_bytes.filter(|_| !gone),
        metadata: environment.metadata.clone(),
        related_issues: environment.related_issues.clone(),
        related_prs: environment.related_prs.clone(),
        error: unknown.or_else(|| environment.error.clone()),
    }
}
