//! Environments as people and scripts see them: the record together with what git and the disk say.

use std::collections::HashMap;
use std::path::PathBuf;

use grove_git::verdict::Verdict;
use grove_model::{Codebase, CommitSha, Environment, MergeMethod, Moment, State, Status};
use serde::Serialize;
use serde_json::{Value, json};

use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::inspect::merge_status::Standing;
use crate::provider::disk::{Facts, facts_of};

/// The state, first that holds.
pub fn state_of(
    environment: &Environment,
    facts: Option<&Result<Facts, String>>,
    standing: Option<&Standing>,
) -> State {
    let present = match facts {
        Some(Ok(Facts::Present(present))) => Some(present),
        _ => None,
    };
    match environment.status {
        Status::Failed => State::Failed,
        Status::Hibernated => State::Hibernated,
        Status::Destroyed => State::Missing,
        // Before the look at the disk: what is being made is not there yet.
        Status::Creating | Status::Initializing => State::Creating,
        _ if matches!(facts, Some(Err(_))) => State::Broken,
        _ if matches!(facts, Some(Ok(Facts::Missing | Facts::NotMounted))) => State::Missing,
        Status::Merging | Status::Removing => State::Merging,
        Status::Active => match present {
            Some(present) if !present.status.is_clean() => State::Dirty,
            _ => match standing {
                Some(standing) if standing.is_merged() => State::Merged,
                Some(standing) if standing.stale => State::Stale,
                Some(Standing { verdict: Verdict::Fresh { .. }, .. }) => State::Fresh,
                _ => State::Active,
            },
        },
    }
}

/// An environment as `--json` and the API give it.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    pub id: String,
    pub codebase: String,
    pub workflow_type: String,
    pub workflow_id: String,
    /// The branch that is checked out; where none is, the recorded one.
    pub branch: String,
    /// The branch that was recorded, where another one is checked out.
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
    /// When the commit that the work began from was made.
    pub base_at: Option<Moment>,
    pub head_sha: Option<String>,
    pub conversations: Vec<String>,
    pub created_by_platform: Option<String>,
    pub created_at: Moment,
    pub last_activity_at: Moment,
    pub size_bytes: Option<i64>,
    pub metadata: Value,
    /// Why nothing is known, or what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Isolation {
    /// The views of a codebase's environments; `all` includes those destroyed.
    pub async fn views(&self, codebase: &Codebase, all: bool) -> Result<Vec<View>, IsolationError> {
        let environments = self.current_environments(codebase, all).await?;
        self.views_of(codebase, environments).await
    }

    pub async fn views_of(
        &self,
        codebase: &Codebase,
        environments: Vec<Environment>,
    ) -> Result<Vec<View>, IsolationError> {
        let conversations = self.store.conversations_in(codebase.id).await?;
        let now = Moment::now();
        let (ended, mut live): (Vec<_>, Vec<_>) = environments.into_iter().partition(|e| e.status == Status::Destroyed);
        let (facts, standings, bases, sizes) = tokio::join!(
            facts_of(&self.git, codebase, &live),
            self.standings(codebase, &live, now),
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
        let mut views: Vec<View> = live
            .chain(ended.into_iter().map(|environment| (environment, None)))
            .map(|(environment, facts)| {
                let conversations = conversations.get(&environment.id).cloned().unwrap_or_default();
                let standing = standings.get(&environment.id);
                let base_at = environment.base_sha.as_ref().and_then(|base| bases.get(base)).copied();
                view(codebase, &environment, facts.as_ref(), standing, base_at, conversations)
            })
            .collect();
        views.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(views)
    }

    /// When the commits that these environments began from were made, as far as git can say.
    async fn base_times(
        &self,
        codebase: &Codebase,
        environments: impl Iterator<Item = &Environment>,
    ) -> HashMap<CommitSha, Moment> {
        let bases = environments.filter_map(|environment| environment.base_sha.clone()).collect();
        self.repository(codebase).commit_times(&bases).await.unwrap_or_else(|error| {
            tracing::warn!("the ages of the bases are not known: {error}");
            HashMap::new()
        })
    }

    /// One environment of which the facts are known already. The age of its base is left to the
    /// list: nobody who waits for a new one needs to wait for that.
    pub async fn view_of_new(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        facts: Facts,
    ) -> Result<View, IsolationError> {
        let mut conversations = self.store.conversations_in(codebase.id).await?;
        let conversations = conversations.remove(&environment.id).unwrap_or_default();
        let standing = if environment.base_sha.is_some() && environment.base_sha == environment.head_sha {
            // Nobody needs to be asked.
            let verdict = Verdict::Fresh { behind: 0 };
            let head = environment.head_sha.clone();
            let last_active = environment.last_activity_at;
            Some(Standing { verdict, head, checked_out: None, last_active, stale: false })
        } else {
            let standings = self.standings(codebase, std::slice::from_ref(environment), Moment::now()).await?;
            standings.into_values().next()
        };
        Ok(view(codebase, environment, Some(&Ok(facts)), standing.as_ref(), None, conversations))
    }
}

fn view(
    codebase: &Codebase,
    environment: &Environment,
    facts: Option<&Result<Facts, String>>,
    standing: Option<&Standing>,
    base_at: Option<Moment>,
    conversations: Vec<String>,
) -> View {
    let present = match facts {
        Some(Ok(Facts::Present(present))) => Some(present),
        _ => None,
    };
    let counts = present.map(|present| &present.status);
    let (now, recorded) = (counts.and_then(|status| status.branch.as_deref()), environment.branch.as_str());
    let apart = standing.and_then(|standing| standing.verdict.ahead_behind());
    let head = present.and_then(|present| present.status.head.clone()).or_else(|| environment.head_sha.clone());
    // What is in the trash, or gone, takes no room where it was.
    let gone = matches!(facts, None | Some(Ok(Facts::Missing | Facts::NotMounted)));
    let unknown = facts.and_then(|facts| facts.as_ref().err().cloned());
    View {
        id: environment.id.to_string(),
        codebase: codebase.name.clone(),
        workflow_type: environment.work.kind().to_string(),
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
        metadata: metadata(environment),
        error: unknown.or_else(|| environment.error.clone()),
    }
}

/// The record's metadata with the links, as the seeds name them.
fn metadata(environment: &Environment) -> Value {
    let mut printed = serde_json::to_value(&environment.metadata).unwrap_or_else(|_| json!({}));
    printed["related_issues"] = json!(environment.related_issues);
    printed["related_prs"] = json!(environment.related_prs);
    printed["adopted"] = json!(environment.is_adopted());
    printed["migrated"] = json!(environment.metadata.migrated_at.is_some());
    printed
}
