//! Settings: `GROVE_HOME/config.toml`, then `<repo>/.grove/config.toml` (from the base branch, a few keys
//! only), then the environment variables, then flags; the later wins.
//!
//! Every key is in one table ([`SETTING_KEYS`]). A key that is not in the table, or a value that does not
//! fit, stops the start with file, line, key and the most similar existing name.

mod adapters;
pub mod agent_catalog;
mod agents;
mod home;
mod keys;
mod live;
mod load;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grove_git::base::FetchPolicy;
use grove_git::finish::FinishMethod;
use grove_git::removal::RegenerableNames;
use jiff::SignedDuration;

pub use adapters::{
    ChatSettings, DiscordSettings, GithubCredentials, GithubSettings, SlackSettings, TelegramSettings,
    is_permanent_platform,
};
pub use agents::{AgentKind, AgentPermissions, AgentSettings};
pub use keys::{SETTING_KEYS, SettingKey};
pub use live::{LiveSettings, ReloadOutcome};
pub use load::ProcessEnvironment;
pub use value::{SettingShape, SettingValue};

/// The origin of a value; a later one wins over an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingOrigin {
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

impl SettingOrigin {
    fn precedence_rank(&self) -> u8 {
        match self {
            SettingOrigin::Default => 0,
            SettingOrigin::File { .. } => 1,
            SettingOrigin::Repository { .. } => 2,
            SettingOrigin::Variable(_) => 3,
            SettingOrigin::Flag(_) => 4,
        }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingOrigin::Default => write!(f, "default"),
            SettingOrigin::File { path, line } => write!(f, "{}:{line}", path.display()),
            SettingOrigin::Repository { branch, line } => write!(f, "{REPOSITORY_SETTINGS_FILE}:{line} on {branch}"),
            SettingOrigin::Variable(name) => write!(f, "${name}"),
            SettingOrigin::Flag(name) => write!(f, "{name}"),
        }
    }
}

/// The name of the settings in GROVE_HOME.
pub const SETTINGS_FILE: &str = "config.toml";

/// The path of the repository's own settings.
pub const REPOSITORY_SETTINGS_FILE: &str = ".grove/config.toml";

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {what}")]
pub struct SettingsError {
    pub origin: SettingOrigin,
    pub what: String,
    pub hint: String,
}

/// The effective settings, each with its origin.
#[derive(Clone, Debug)]
pub struct Settings {
    home: PathBuf,
    instead_of_container_home: bool,
    user_home: Option<PathBuf>,
    entries: BTreeMap<&'static str, (SettingValue, SettingOrigin)>,
    agents: BTreeMap<String, AgentSettings>,
    file_version: FileVersion,
}

/// A version of the settings file: its inode, size and time; `None` if there is no file.
pub type FileVersion = Option<(u64, u64, i64, i64)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorktreeLayout {
    Owner,
    Project,
    Sibling,
}

/// Decides when an environment's branch is pushed to its remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushPolicy {
    /// When a person asks for it.
    Ask,
    /// Also after every run that left commits.
    Auto,
    Never,
}

/// A shorter text could match by chance.
const MIN_CONFIGURED_SECRET_LENGTH: usize = 8;

/// Tells whether a variable holds a secret, by its name.
fn names_secret(variable: &str) -> bool {
    let name = variable.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH"].iter().any(|part| name.contains(part))
}

/// The treatment of submodules in a new worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmodulePolicy {
    /// They are checked out; one that cannot be is reported.
    CheckOut,
    /// One that cannot be checked out fails the creation.
    Require,
    Leave,
}

impl Settings {
    /// Returns the version of the file in GROVE_HOME that these settings were loaded from.
    pub fn loaded_file_version(&self) -> FileVersion {
        self.file_version
    }

    /// Returns the version of the file in GROVE_HOME at this moment.
    pub fn current_file_version(&self) -> FileVersion {
        load::file_version(&self.home.join(SETTINGS_FILE))
    }

    /// Returns GROVE_HOME.
    pub fn home_path(&self) -> &Path {
        &self.home
    }

    /// Tells whether this is a container without a `/.grove` that can be used.
    pub fn is_home_instead_of_container_home(&self) -> bool {
        self.instead_of_container_home
    }

    /// Returns the user's home.
    pub fn user_home(&self) -> Option<&Path> {
        self.user_home.as_deref()
    }

    /// Returns all keys in the table's order; `None` for those without a value.
    pub fn all_entries(&self) -> impl Iterator<Item = (&'static SettingKey, Option<&(SettingValue, SettingOrigin)>)> {
        SETTING_KEYS.iter().map(|key| (key, self.entries.get(key.name)))
    }

    fn set_if_stronger(&mut self, key: &'static SettingKey, value: SettingValue, origin: SettingOrigin) {
        let weaker =
            self.entries.get(key.name).is_none_or(|(_, known)| known.precedence_rank() <= origin.precedence_rank());
        if weaker {
            self.entries.insert(key.name, (value, origin));
        }
    }

    fn setting_value(&self, name: &'static str) -> Option<&SettingValue> {
        debug_assert!(SETTING_KEYS.iter().any(|key| key.name == name), "{name} is in the table");
        self.entries.get(name).map(|(value, _)| value)
    }

    fn setting_text(&self, name: &'static str) -> Option<&str> {
        self.setting_value(name).and_then(SettingValue::as_text).filter(|text| !text.is_empty())
    }

    fn setting_count(&self, name: &'static str) -> u64 {
        self.setting_value(name).and_then(SettingValue::as_count).unwrap_or_default()
    }

    fn setting_duration(&self, name: &'static str) -> SignedDuration {
        // A hundred years stand for "forever" and do not overflow.
        SignedDuration::from_secs(self.setting_count(name).min(36_500 * 24 * 3600).cast_signed())
    }

    fn setting_timeout(&self, name: &'static str) -> Duration {
        self.setting_duration(name).unsigned_abs()
    }

    fn setting_list(&self, name: &'static str) -> &[String] {
        self.setting_value(name).and_then(SettingValue::as_list).unwrap_or_default()
    }

    /// Returns a path, with `~` for the user's home and relative to GROVE_HOME.
    fn setting_path(&self, name: &'static str) -> Option<PathBuf> {
        self.setting_text(name).map(|text| self.home.join(home::expand_home(text, self.user_home.as_deref())))
    }

    pub fn store_url(&self) -> String {
        let default = || format!("sqlite://{}", self.home.join("grove.db").display());
        self.setting_text("store.url").map_or_else(default, str::to_owned)
    }

    /// Returns how long a PostgreSQL that cannot be reached is retried when the store is opened.
    pub fn store_connect_timeout(&self) -> Duration {
        self.setting_timeout("store.connect_timeout")
    }

    pub fn worktree_base(&self) -> PathBuf {
        self.setting_path("worktree.base").unwrap_or_else(|| self.home.join("worktrees"))
    }

    pub fn worktree_layout(&self) -> WorktreeLayout {
        match self.setting_text("worktree.layout") {
            Some("project") => WorktreeLayout::Project,
            Some("sibling") => WorktreeLayout::Sibling,
            _ => WorktreeLayout::Owner,
        }
    }

    pub fn base_branch(&self) -> Option<&str> {
        self.setting_text("worktree.base_branch")
    }

    pub fn remote_name(&self) -> Option<&str> {
        self.setting_text("worktree.remote")
    }

    pub fn fetch_policy(&self) -> FetchPolicy {
        match self.setting_text("worktree.fetch") {
            Some("always") => FetchPolicy::Always,
            Some("never") => FetchPolicy::Never,
            _ => FetchPolicy::Auto,
        }
    }

    /// Returns how long a remote may take to answer if the base is known without it.
    pub fn fetch_timeout(&self) -> Duration {
        self.setting_timeout("worktree.fetch_timeout")
    }

    /// Returns how long git may take to inspect a worktree.
    pub fn inspect_timeout(&self) -> Duration {
        self.setting_timeout("worktree.inspect_timeout")
    }

    /// Returns the patterns of ignored files to copy.
    pub fn copy_patterns(&self) -> &[String] {
        self.setting_list("worktree.copy")
    }

    pub fn submodule_policy(&self) -> SubmodulePolicy {
        match self.setting_value("worktree.submodules") {
            Some(SettingValue::Bool(false)) => SubmodulePolicy::Leave,
            Some(SettingValue::Text(_)) => SubmodulePolicy::Require,
            _ => SubmodulePolicy::CheckOut,
        }
    }

    pub fn branch_prefix(&self) -> &str {
        self.setting_text("worktree.branch_prefix").unwrap_or_default()
    }

    pub fn min_free_disk(&self) -> u64 {
        self.setting_count("limits.min_free_disk")
    }

    /// Returns the names of folders that tools can recreate.
    pub fn regenerable_names(&self) -> RegenerableNames {
        let origin = self.entries.get("cleanup.regenerable").map(|(_, origin)| origin);
        RegenerableNames {
            names: self.setting_list("cleanup.regenerable").to_vec(),
            chosen_by_person: matches!(
                origin,
                Some(SettingOrigin::File { .. } | SettingOrigin::Variable(_) | SettingOrigin::Flag(_))
            ),
        }
    }

    /// Returns how long folders that tools can recreate stay in the trash.
    pub fn regenerable_keep(&self) -> SignedDuration {
        self.setting_duration("cleanup.regenerable_keep")
    }

    pub fn max_worktrees(&self) -> u64 {
        self.setting_count("limits.max_worktrees_per_codebase")
    }

    pub fn finish_method(&self) -> FinishMethod {
        self.setting_text("cleanup.finish_method").and_then(|word| word.parse().ok()).unwrap_or(FinishMethod::Merge)
    }

    pub fn stale_days(&self) -> u64 {
        self.setting_count("cleanup.stale_days")
    }

    /// Returns how long the scheduler and the limit leave an environment alone after it was touched.
    pub fn cleanup_grace(&self) -> SignedDuration {
        self.setting_duration("cleanup.grace")
    }

    pub fn trash_keep_days(&self) -> u64 {
        self.setting_count("cleanup.trash_keep_days")
    }

    /// Returns the address that the server listens on.
    pub fn listen_address(&self) -> &str {
        self.setting_text("server.listen").unwrap_or("127.0.0.1:3090")
    }

    /// Returns the configured token; without one, the server generates its own.
    pub fn server_token(&self) -> Option<&str> {
        self.setting_text("server.token")
    }

    /// Returns how long a client may take to send the head of a request.
    pub fn header_timeout(&self) -> Duration {
        self.setting_timeout("server.header_timeout")
    }

    /// Returns how long a client may send no byte of a request's body.
    pub fn body_timeout(&self) -> Duration {
        self.setting_timeout("server.body_timeout")
    }

    /// Returns how long a client may read no byte of an answer.
    pub fn send_timeout(&self) -> Duration {
        self.setting_timeout("server.send_timeout")
    }

    /// Returns how long an init script may take.
    pub fn init_timeout(&self) -> Duration {
        self.setting_timeout("init.timeout")
    }

    pub fn max_conversations(&self) -> usize {
        usize::try_from(self.setting_count("limits.max_concurrent_conversations")).unwrap_or(usize::MAX).max(1)
    }

    pub fn cleanup_interval(&self) -> std::time::Duration {
        std::time::Duration::from_secs(3600 * self.setting_count("cleanup.interval_hours").clamp(1, 24 * 365))
    }

    /// Tells whether a run that a restart interrupted is retried automatically.
    pub fn retry_on_restart(&self) -> bool {
        self.setting_text("runs.on_restart") == Some("retry")
    }

    pub fn push_policy(&self) -> PushPolicy {
        match self.setting_text("push") {
            Some("auto") => PushPolicy::Auto,
            Some("never") => PushPolicy::Never,
            _ => PushPolicy::Ask,
        }
    }

    pub fn default_agent(&self) -> Option<&str> {
        self.setting_text("agent.default")
    }

    pub fn test_adapter(&self) -> bool {
        self.setting_value("adapters.test.enabled").and_then(SettingValue::as_bool).unwrap_or(false)
    }

    /// Returns every configured secret, so that none of them leaves in a message.
    pub fn configured_secrets(&self) -> Vec<String> {
        let configured = self.all_entries().filter(|(key, _)| key.secret && key.name != "store.url");
        let texts = configured.filter_map(|(_, entry)| entry).flat_map(|(value, _)| match value {
            SettingValue::List(list) => list.iter().map(String::as_str).collect(),
            value => value.as_text().into_iter().collect::<Vec<_>>(),
        });
        let of_agents = self.agent_variables().filter(|(name, _)| names_secret(name)).map(|(_, value)| value);
        texts.chain(of_agents).filter(|text| text.len() >= MIN_CONFIGURED_SECRET_LENGTH).map(str::to_owned).collect()
    }

    /// Returns the other values that agents are given: each may be a secret or an ordinary word.
    pub fn agent_values(&self) -> Vec<String> {
        let others = self.agent_variables().filter(|(name, _)| !names_secret(name)).map(|(_, value)| value);
        others.filter(|text| text.len() >= MIN_CONFIGURED_SECRET_LENGTH).map(str::to_owned).collect()
    }

    fn agent_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.agents.values().flat_map(|agent| &agent.env);
        all.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn allowed_root(&self) -> Option<PathBuf> {
        self.setting_path("security.allowed_root")
    }
}
