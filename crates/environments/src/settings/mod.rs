//! Settings: `GROVE_HOME/config.toml`, then `<repo>/.grove/config.toml` (from the base branch, a
//! few keys only), then the environment, then flags; the later wins.
//!
//! Every key is in one table ([`KEYS`]); what is not there, or does not fit, stops the start with
//! file, line, key and the nearest name that exists.

mod adapters;
pub mod agent_catalog;
mod agents;
mod home;
mod keys;
mod load;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grove_git::base::FetchPolicy;
use grove_git::finish::Method;
use grove_git::removal::RegenerableNames;
use jiff::SignedDuration;

pub use adapters::{GithubCredentials, GithubSettings};
pub use agents::{AgentKind, AgentSettings, Permissions};
pub use home::grove_home;
pub use keys::{KEYS, Key};
pub use load::Environment;
pub use value::{Shape, Value};

/// Where a value came from; a later one wins over an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Default,
    File {
        path: PathBuf,
        line: usize,
    },
    /// The repository's own file, in the branch named.
    Repository {
        branch: String,
        line: usize,
    },
    Variable(String),
    Flag(&'static str),
}

impl Origin {
    fn rank(&self) -> u8 {
        match self {
            Origin::Default => 0,
            Origin::File { .. } => 1,
            Origin::Repository { .. } => 2,
            Origin::Variable(_) => 3,
            Origin::Flag(_) => 4,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => write!(f, "default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Repository { branch, line } => write!(f, "{REPOSITORY_FILE}:{line} on {branch}"),
            Origin::Variable(name) => write!(f, "${name}"),
            Origin::Flag(name) => write!(f, "{name}"),
        }
    }
}

/// The repository's own settings.
pub const REPOSITORY_FILE: &str = ".grove/config.toml";

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {what}")]
pub struct SettingsError {
    pub origin: Origin,
    pub what: String,
    pub hint: String,
}

/// The effective settings, each with where it came from.
#[derive(Clone, Debug)]
pub struct Settings {
    home: PathBuf,
    user_home: Option<PathBuf>,
    entries: BTreeMap<&'static str, (Value, Origin)>,
    agents: BTreeMap<String, AgentSettings>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Owner,
    Project,
    Sibling,
}

/// When an environment's branch goes to its remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushPolicy {
    /// When somebody says so.
    Ask,
    /// Also after every run that left commits.
    Auto,
    Never,
}

/// A shorter text is found by chance.
const SHORTEST_SECRET: usize = 8;

/// Tells whether a variable holds a secret, by its name.
fn names_secret(variable: &str) -> bool {
    let name = variable.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH"].iter().any(|part| name.contains(part))
}

/// What becomes of the submodules of a new worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submodules {
    /// They are checked out; one that cannot be is reported.
    CheckOut,
    /// One that cannot be checked out fails the creation.
    Require,
    Leave,
}

impl Settings {
    /// GROVE_HOME.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The person's home.
    pub fn user_home(&self) -> Option<&Path> {
        self.user_home.as_deref()
    }

    /// All keys in the table's order; `None` for those without a value.
    pub fn entries(&self) -> impl Iterator<Item = (&'static Key, Option<&(Value, Origin)>)> {
        KEYS.iter().map(|key| (key, self.entries.get(key.name)))
    }

    fn set(&mut self, key: &'static Key, value: Value, origin: Origin) {
        let weaker = self.entries.get(key.name).is_none_or(|(_, known)| known.rank() <= origin.rank());
        if weaker {
            self.entries.insert(key.name, (value, origin));
        }
    }

    fn value(&self, name: &'static str) -> Option<&Value> {
        debug_assert!(KEYS.iter().any(|key| key.name == name), "{name} is in the table");
        self.entries.get(name).map(|(value, _)| value)
    }

    fn text(&self, name: &'static str) -> Option<&str> {
        self.value(name).and_then(Value::as_text).filter(|text| !text.is_empty())
    }

    fn count(&self, name: &'static str) -> u64 {
        self.value(name).and_then(Value::as_count).unwrap_or_default()
    }

    fn duration(&self, name: &'static str) -> SignedDuration {
        // A hundred years are as good as for ever, and can be counted.
        SignedDuration::from_secs(self.count(name).min(36_500 * 24 * 3600).cast_signed())
    }

    fn list(&self, name: &'static str) -> &[String] {
        self.value(name).and_then(Value::as_list).unwrap_or_default()
    }

    /// A path, with `~` for the person's home and relative to GROVE_HOME.
    fn path(&self, name: &'static str) -> Option<PathBuf> {
        self.text(name).map(|text| self.home.join(home::expand(text, self.user_home.as_deref())))
    }

    pub fn store_url(&self) -> String {
        let default = || format!("sqlite://{}", self.home.join("grove.db").display());
        self.text("store.url").map_or_else(default, str::to_owned)
    }

    pub fn worktree_base(&self) -> PathBuf {
        self.path("worktree.base").unwrap_or_else(|| self.home.join("worktrees"))
    }

    pub fn layout(&self) -> Layout {
        match self.text("worktree.layout") {
            Some("project") => Layout::Project,
            Some("sibling") => Layout::Sibling,
            _ => Layout::Owner,
        }
    }

    pub fn base_branch(&self) -> Option<&str> {
        self.text("worktree.base_branch")
    }

    pub fn remote(&self) -> Option<&str> {
        self.text("worktree.remote")
    }

    pub fn fetch(&self) -> FetchPolicy {
        match self.text("worktree.fetch") {
            Some("always") => FetchPolicy::Always,
            Some("never") => FetchPolicy::Never,
            _ => FetchPolicy::Auto,
        }
    }

    /// How long a remote may stay silent where the base is known without it.
    pub fn fetch_timeout(&self) -> Duration {
        Duration::from_secs(self.count("worktree.fetch_timeout"))
    }

    /// Patterns of ignored files to copy.
    pub fn copy(&self) -> &[String] {
        self.list("worktree.copy")
    }

    pub fn submodules(&self) -> Submodules {
        match self.value("worktree.submodules") {
            Some(Value::Bool(false)) => Submodules::Leave,
            Some(Value::Text(_)) => Submodules::Require,
            _ => Submodules::CheckOut,
        }
    }

    pub fn branch_prefix(&self) -> &str {
        self.text("worktree.branch_prefix").unwrap_or_default()
    }

    pub fn min_free_disk(&self) -> u64 {
        self.count("limits.min_free_disk")
    }

    /// Names of folders that tools make again.
    pub fn regenerable_names(&self) -> RegenerableNames {
        let origin = self.entries.get("cleanup.regenerable").map(|(_, origin)| origin);
        RegenerableNames {
            names: self.list("cleanup.regenerable").to_vec(),
            chosen_by_person: matches!(origin, Some(Origin::File { .. } | Origin::Variable(_) | Origin::Flag(_))),
        }
    }

    /// How long such folders stay in the trash.
    pub fn regenerable_keep(&self) -> SignedDuration {
        self.duration("cleanup.regenerable_keep")
    }

    pub fn max_worktrees(&self) -> u64 {
        self.count("limits.max_worktrees_per_codebase")
    }

    pub fn finish_method(&self) -> Method {
        self.text("cleanup.finish_method").and_then(|word| word.parse().ok()).unwrap_or(Method::Merge)
    }

    pub fn stale_days(&self) -> u64 {
        self.count("cleanup.stale_days")
    }

    /// How long the scheduler and the limit leave an environment alone that was just touched.
    pub fn cleanup_grace(&self) -> SignedDuration {
        self.duration("cleanup.grace")
    }

    pub fn trash_keep_days(&self) -> u64 {
        self.count("cleanup.trash_keep_days")
    }

    /// Where the server listens.
    pub fn listen(&self) -> &str {
        self.text("server.listen").unwrap_or("127.0.0.1:3090")
    }

    /// The token that somebody chose; without one, the server makes its own.
    pub fn server_token(&self) -> Option<&str> {
        self.text("server.token")
    }

    pub fn max_conversations(&self) -> usize {
        usize::try_from(self.count("limits.max_concurrent_conversations")).unwrap_or(usize::MAX).max(1)
    }

    pub fn cleanup_interval(&self) -> std::time::Duration {
        std::time::Duration::from_secs(3600 * self.count("cleanup.interval_hours").clamp(1, 24 * 365))
    }

    /// Whether a run that a restart cut short is run again by itself.
    pub fn retry_on_restart(&self) -> bool {
        self.text("runs.on_restart") == Some("retry")
    }

    pub fn push(&self) -> PushPolicy {
        match self.text("push") {
            Some("auto") => PushPolicy::Auto,
            Some("never") => PushPolicy::Never,
            _ => PushPolicy::Ask,
        }
    }

    pub fn default_agent(&self) -> Option<&str> {
        self.text("agent.default")
    }

    pub fn test_adapter(&self) -> bool {
        self.value("adapters.test.enabled").and_then(Value::as_bool).unwrap_or(false)
    }

    /// Every secret that somebody configured, so that none of them leaves in a message.
    pub fn secrets(&self) -> Vec<String> {
        let configured = self.entries().filter(|(key, _)| key.secret && key.name != "store.url");
        let texts = configured.filter_map(|(_, entry)| entry).flat_map(|(value, _)| match value {
            Value::List(list) => list.iter().map(String::as_str).collect(),
            value => value.as_text().into_iter().collect::<Vec<_>>(),
        });
        let of_agents = self.agent_variables().filter(|(name, _)| names_secret(name)).map(|(_, value)| value);
        texts.chain(of_agents).filter(|text| text.len() >= SHORTEST_SECRET).map(str::to_owned).collect()
    }

    /// What agents are given besides: a secret, or a word like any other.
    pub fn agent_values(&self) -> Vec<String> {
        let others = self.agent_variables().filter(|(name, _)| !names_secret(name)).map(|(_, value)| value);
        others.filter(|text| text.len() >= SHORTEST_SECRET).map(str::to_owned).collect()
    }

    fn agent_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.agents.values().flat_map(|agent| &agent.env);
        all.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn allowed_root(&self) -> Option<PathBuf> {
        self.path("security.allowed_root")
    }
}
