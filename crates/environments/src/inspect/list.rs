//! Environments as people and scripts see them: the record together with the facts from git and the disk.

use std::collections::HashMap;
use std::path::PathBuf;

use grove_git::verdict::MergeVerdict;
use grove_model::{Codebase, CommitSha, Environment, MergeMethod, Moment, State, Status};
use serde::Serialize;
use serde_json::{Value, json};

use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::inspect::merge_status::MergeStatus;
use crate::provider::disk::DiskFacts;

/// Returns the state of an environment: the first one that holds.
pub fn state_of(
    environment: &Environment,
    facts: Option<&Result<DiskFacts, String>>,
    standing: Option<&MergeStatus>,
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
            Some(present) if !present.status.is_clean() => State::Dirty,
            _ => match standing {
                Some(standing) if standing.is_merged() => State::Merged,
                Some(standing) if standing.stale => State::Stale,
                Some(MergeStatus { verdict: MergeVerdict::Fresh { .. }, .. }) => State::Fresh,
                _ => State::Active,
            },
        },
    }
}

/// An environment as `--json` and the API return it.
#[derive(Clone, Debug, Serialize)]
pub struct EnvironmentView {
    pub id: String,
    pub codebase: String,
    pub workflow_type: String,
    pub workflow_id: String,
    /// The branch that is checked out; if none is, the recorded one.
    pub branch: String,
    /// The recorded branch, if another one is checked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_branch: Option<String>,
    pub path: PathBuf,
    pub provider: String,
    pub status: Status,
    pub state: State,
    pub merged_by: Option<MergeMethod>,
    pub ahead: Option<u64>,
    pub behind: Option<u64>,
    pub dirty: bool,
    pub untracked: usize,
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
    pub metadata: Value,
    /// The reason why nothing is known, or the error.
    #[serde(skip_serializing_if = "Option::is_none")]
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
        let (facts, standings, bases, sizes) = tokio::join!(
            self.provider.inspect(codebase, &live),
            self.merge_statuses(codebase, &live, now),
            self.base_times(codebase, live.iter().chain(&ended)),
            self.measure_some(codebase, &live, now)
        );
        let standings = standings?;
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
                let standing = standings.get(&environment.id);
                let base_at = environment.base_sha.as_ref().and_then(|base| bases.get(base)).copied();
                build_view(codebase, &environment, facts.as_ref(), standing, base_at, conversations)
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
        let standing = if environment.base_sha.is_some() && environment.base_sha == environment.head_sha {
            // A new environment needs no merge check.
            let verdict = MergeVerdict::Fresh { behind: 0 };
            let head = environment.head_sha.clone();
            let last_active = environment.last_activity_at;
            Some(MergeStatus { verdict, head, checked_out: None, last_active, stale: false })
        } else {
            let standings = self.merge_statuses(codebase, std::slice::from_ref(environment), Moment::now()).await?;
            standings.into_values().next()
        };
        Ok(build_view(codebase, environment, Some(&Ok(facts)), standing.as_ref(), None, conversations))
    }
}

fn build_view(
    codebase: &Codebase,
    environment: &Environment,
    facts: Option<&Result<DiskFacts, String>>,
    standing: Option<&MergeStatus>,
    base_at: Option<Moment>,
    conversations: Vec<String>,
) -> EnvironmentView {
    let present = match facts {
        Some(Ok(DiskFacts::Present(present))) => Some(present),
        _ => None,
    };
    let counts = present.map(|present| &present.status);
    let (now, recorded) = (counts.and_then(|status| status.branch.as_deref()), environment.branch.as_str());
    let apart = standing.and_then(|standing| standing.verdict.ahead_behind());
    let head = present.and_then(|present| present.status.head.clone()).or_else(|| environment.head_sha.clone());
    // An environment that is in the trash, or gone, takes no room at its path.
    let gone = matches!(facts, None | Some(Ok(DiskFacts::Missing | DiskFacts::NotMounted)));
    let unknown = facts.and_then(|facts| facts.as_ref().err().cloned());
    EnvironmentView {
        id: environment.id.to_string(),
        codebase: codebase.name.clone(),
        workflow_type: environment.work.work_kind().to_string(),
        workflow_id: environment.work.id().to_owned(),
        branch: now.unwrap_or(recorded).to_owned(),
        recorded_branch: now.filter(|now| *now != recorded).map(|_| recorded.to_owned()),
        path: environment.path.clone(),
        provider: environment.provider.clone(),
        status: environment.status,
        state: state_of(environment, facts, standing),
        merged_by: standing.and_then(|standing| standing.verdict.merged_by()),
        ahead: apart.map(|(ahead, _)| ahead),
        behind: apart.map(|(_, behind)| behind),
        dirty: counts.is_some_and(|status| !status.is_clean()),
        untracked: counts.map_or(0, |status| status.counts.untracked),
        adopted: environment.is_adopted(),
        base: environment.base_ref.clone(),
        base_sha: environment.base_sha.as_ref().map(ToString::to_string),
        base_at,
        head_sha: head.map(|sha| sha.to_string()),
        conversations,
        created_by_platform: environment.created_by_platform.clone(),
        created_at: environment.created_at,
        last_activity_at: standing.map_or(environment.last_activity_at, |standing| standing.last_active),
        size_bytes: environment.size_bytes.filter(|_| !gone),
        metadata: metadata_json(environment),
        error: unknown.or_else(|| environment.error.clone()),
    }
}

/// Returns the record's metadata with the links, under the names that the seeds use.
fn metadata_json(environment: &Environment) -> Value {
    let mut printed = serde_json::to_value(&environment.metadata).unwrap_or_else(|_| json!({}));
    printed["related_issues"] = json!(environment.related_issues);
    printed["related_prs"] = json!(environment.related_prs);
    printed["adopted"] = json!(environment.is_adopted());
    printed["migrated"] = json!(environment.metadata.migrated_at.is_some());
    printed
}
