//! The answer of `grove status`.

use std::collections::BTreeMap;

use grove_environments::{Environments, Problem};
use grove_model::State;
use grove_store::Store;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of the whole installation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Status)]
pub struct StatusJson {
    pub version: &'static str,
    /// The number of registered repositories.
    pub codebases: usize,
    pub worktrees: WorktreeCountsJson,
    pool: PoolJson,
    /// The platforms, by name.
    pub adapters: BTreeMap<String, AdapterJson>,
    pub queue: QueueJson,
    pub settings: ReloadJson,
}

/// The settings that were edited while the server ran.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SettingsReload)]
pub struct ReloadJson {
    /// The reason why the edited file cannot be used; the server keeps its previous settings.
    error: Option<String>,
    /// The keys whose new values need a restart.
    needs_restart: Vec<&'static str>,
}

/// The number of worktrees, by state.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = WorktreeCounts)]
pub struct WorktreeCountsJson {
    fresh: usize,
    active: usize,
    dirty: usize,
    merged: usize,
    stale: usize,
    missing: usize,
    hibernated: usize,
    failed: usize,
    pub total: usize,
}

impl WorktreeCountsJson {
    fn count(&mut self, state: State) {
        self.total += 1;
        match state {
            State::Fresh => self.fresh += 1,
            State::Active => self.active += 1,
            State::Dirty => self.dirty += 1,
            State::Merged => self.merged += 1,
            State::Stale => self.stale += 1,
            State::Missing => self.missing += 1,
            State::Hibernated => self.hibernated += 1,
            State::Failed => self.failed += 1,
            State::Broken | State::Creating | State::Merging => {}
        }
    }

    /// Returns the states that are counted one by one, each with its number.
    pub fn by_state(&self) -> [(State, usize); 8] {
        [
            (State::Fresh, self.fresh),
            (State::Active, self.active),
            (State::Dirty, self.dirty),
            (State::Merged, self.merged),
            (State::Stale, self.stale),
            (State::Missing, self.missing),
            (State::Hibernated, self.hibernated),
            (State::Failed, self.failed),
        ]
    }
}

/// The pool of prepared worktrees.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Pool)]
struct PoolJson {}

/// The state of a platform, as its adapter recorded it.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[schema(as = Adapter)]
pub struct AdapterJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub detail: Option<String>,
    /// The number of events and answers that are not handled yet.
    #[serde(skip_deserializing)]
    pub waiting: i64,
}

/// The number of messages that are not answered yet.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Queue)]
pub struct QueueJson {
    pub running: i64,
    pub waiting: i64,
}

pub async fn load_status(store: &Store, environments: &Environments) -> Result<StatusJson, Problem> {
    let codebases = store.list_codebases().await?;
    let mut worktrees = WorktreeCountsJson::default();
    for codebase in &codebases {
        for view in environments.environment_views(codebase, false).await? {
            worktrees.count(view.state);
        }
    }
    // The counts are read in the order in which messages pass through, so that none is missed on its way.
    let states = store.adapter_states().await?;
    let mut behind = Vec::new();
    for (platform, _) in &states {
        behind.push(store.unread_count(platform).await?);
    }
    let (running, waiting) = store.queue_counts().await?;
    let reload = environments.last_settings_reload();
    let mut adapters = BTreeMap::new();
    for ((platform, state), unread) in states.into_iter().zip(behind) {
        let recorded: AdapterJson = serde_json::from_str(&state).unwrap_or_default();
        let waiting = unread + store.unsent_count(&platform).await?;
        adapters.insert(platform, AdapterJson { waiting, ..recorded });
    }
    Ok(StatusJson {
        version: env!("CARGO_PKG_VERSION"),
        codebases: codebases.len(),
        worktrees,
        pool: PoolJson {},
        adapters,
        queue: QueueJson { running, waiting },
        settings: ReloadJson { error: reload.error, needs_restart: reload.needs_restart },
    })
}
