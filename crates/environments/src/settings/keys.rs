//! The table of all settings.

use crate::settings::value::SettingShape;

#[derive(Debug)]
pub struct SettingKey {
    pub name: &'static str,
    pub shape: SettingShape,
    /// As a person would write it; `None` if the behaviour without it cannot be written as a value.
    pub default: Option<&'static str>,
    /// Variables with a special name, besides `GROVE_<SECTION>_<KEY>`.
    pub also: &'static [&'static str],
    /// The repository's own file may set it.
    pub in_repository: bool,
    pub secret: bool,
    /// A running server uses a new value only after a restart.
    pub needs_restart: bool,
}

impl SettingKey {
    /// Returns `GROVE_<SECTION>_<KEY>`.
    pub fn variable_name(&self) -> String {
        format!("GROVE_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

const fn new_key(name: &'static str, shape: SettingShape, default: Option<&'static str>) -> SettingKey {
    SettingKey { name, shape, default, also: &[], in_repository: false, secret: false, needs_restart: false }
}

impl SettingKey {
    const fn with_other_variables(mut self, names: &'static [&'static str]) -> Self {
        self.also = names;
        self
    }

    const fn in_repository(mut self) -> Self {
        self.in_repository = true;
        self
    }

    const fn needs_restart(mut self) -> Self {
        self.needs_restart = true;
        self
    }

    const fn mark_secret(mut self) -> Self {
        self.secret = true;
        self
    }
}

pub const SETTING_KEYS: &[SettingKey] = &[
    new_key("server.listen", SettingShape::Address, Some("127.0.0.1:3090"))
        .with_other_variables(&["PORT"])
        .needs_restart(),
    new_key("server.token", SettingShape::Text, None).mark_secret().needs_restart(),
    new_key("server.header_timeout", SettingShape::Duration { least: 1 }, Some("15s")).needs_restart(),
    new_key("server.body_timeout", SettingShape::Duration { least: 1 }, Some("10s")).needs_restart(),
    new_key("server.send_timeout", SettingShape::Duration { least: 1 }, Some("20s")).needs_restart(),
    new_key("store.url", SettingShape::StoreUrl, None)
        .with_other_variables(&["DATABASE_URL"])
        .mark_secret()
        .needs_restart(),
    new_key("store.connect_timeout", SettingShape::Duration { least: 1 }, Some("3s")).needs_restart(),
    new_key("worktree.base", SettingShape::Path, None).with_other_variables(&["WORKTREE_BASE"]),
    new_key("worktree.layout", SettingShape::OneOf(&["owner", "project", "sibling"]), Some("owner")),
    new_key("worktree.base_branch", SettingShape::Text, None).in_repository(),
    new_key("worktree.remote", SettingShape::Text, None),
    new_key("worktree.fetch", SettingShape::OneOf(&["auto", "always", "never"]), Some("auto")).in_repository(),
    new_key("worktree.fetch_timeout", SettingShape::Duration { least: 1 }, Some("15s")),
    new_key("worktree.inspect_timeout", SettingShape::Duration { least: 1 }, Some("20s")).needs_restart(),
    new_key("worktree.copy", SettingShape::List, Some("")).in_repository(),
    new_key("worktree.submodules", SettingShape::BoolOr("require"), Some("true")).in_repository(),
    new_key("worktree.branch_prefix", SettingShape::BranchPrefix, Some("")).in_repository(),
    new_key("worktree.pool", SettingShape::Pool, Some("auto")),
    new_key("limits.max_worktrees_per_codebase", SettingShape::Count { least: 1 }, Some("25"))
        .with_other_variables(&["MAX_WORKTREES_PER_CODEBASE"]),
    new_key("limits.max_concurrent_conversations", SettingShape::Count { least: 1 }, Some("10"))
        .with_other_variables(&["MAX_CONCURRENT_CONVERSATIONS"]),
    new_key("limits.min_free_disk", SettingShape::Size, Some("1GiB")),
    new_key("cleanup.interval_hours", SettingShape::Count { least: 1 }, Some("6"))
        .with_other_variables(&["CLEANUP_INTERVAL_HOURS"])
        .needs_restart(),
    new_key("cleanup.stale_days", SettingShape::Count { least: 1 }, Some("14"))
        .with_other_variables(&["STALE_THRESHOLD_DAYS"]),
    new_key("cleanup.trash_keep_days", SettingShape::Count { least: 1 }, Some("30")),
    new_key(
        "cleanup.regenerable",
        SettingShape::List,
        Some("target/,node_modules/,.venv/,__pycache__/,.tox/,.pytest_cache/,.mypy_cache/,.gradle/"),
    )
    .in_repository(),
    new_key("cleanup.regenerable_keep", SettingShape::Duration { least: 0 }, Some("24h")),
    new_key("cleanup.grace", SettingShape::Duration { least: 0 }, Some("1h")),
    new_key("cleanup.finish_method", SettingShape::OneOf(&["merge", "squash"]), Some("merge")),
    new_key("runs.on_restart", SettingShape::OneOf(&["ask", "retry"]), Some("ask")),
    new_key("push", SettingShape::OneOf(&["ask", "auto", "never"]), Some("ask")),
    new_key("init.timeout", SettingShape::Duration { least: 1 }, Some("10m")),
    new_key("security.allowed_root", SettingShape::Path, None).with_other_variables(&["ALLOWED_ROOT_DIRECTORY"]),
    new_key("security.sandbox", SettingShape::OneOf(&["enforce", "warn", "off"]), None),
    new_key("agent.default", SettingShape::Text, None).in_repository(),
    new_key("adapters.github.token", SettingShape::Text, None)
        .with_other_variables(&["GITHUB_TOKEN"])
        .mark_secret()
        .needs_restart(),
    new_key("adapters.github.app_id", SettingShape::Count { least: 1 }, None).needs_restart(),
    new_key("adapters.github.private_key_file", SettingShape::Path, None).needs_restart(),
    new_key("adapters.github.webhook_secret", SettingShape::OneOrMore, Some(""))
        .with_other_variables(&["WEBHOOK_SECRET"])
        .mark_secret()
        .needs_restart(),
    new_key("adapters.github.mode", SettingShape::OneOf(&["webhook", "poll"]), Some("webhook")).needs_restart(),
    new_key("adapters.github.poll_seconds", SettingShape::Count { least: 1 }, Some("30")).needs_restart(),
    new_key("adapters.github.repos", SettingShape::List, Some("")).needs_restart(),
    new_key("adapters.github.bot_name", SettingShape::Text, Some("grove"))
        .with_other_variables(&["GITHUB_BOT_MENTION"])
        .needs_restart(),
    new_key("adapters.github.api_url", SettingShape::Text, Some("https://api.github.com")).needs_restart(),
    new_key("adapters.github.allowed_users", SettingShape::List, Some(""))
        .with_other_variables(&["GITHUB_ALLOWED_USERS"]),
    new_key("adapters.github.allow_all", SettingShape::Bool, Some("false")),
    new_key("adapters.github.streaming", SettingShape::OneOf(&["stream", "batch"]), Some("stream")).needs_restart(),
    new_key("adapters.github.update_seconds", SettingShape::Count { least: 1 }, Some("8")).needs_restart(),
    new_key("adapters.slack.bot_token", SettingShape::Text, None)
        .with_other_variables(&["SLACK_BOT_TOKEN"])
        .mark_secret()
        .needs_restart(),
    new_key("adapters.slack.app_token", SettingShape::Text, None)
        .with_other_variables(&["SLACK_APP_TOKEN"])
        .mark_secret()
        .needs_restart(),
    new_key("adapters.slack.signing_secret", SettingShape::Text, None).mark_secret().needs_restart(),
    new_key("adapters.slack.api_url", SettingShape::Text, Some("https://slack.com/api")).needs_restart(),
    new_key("adapters.slack.allowed_users", SettingShape::List, Some(""))
        .with_other_variables(&["SLACK_ALLOWED_USER_IDS"]),
    new_key("adapters.slack.allow_all", SettingShape::Bool, Some("false")),
    new_key("adapters.slack.streaming", SettingShape::OneOf(&["stream", "batch"]), Some("stream")).needs_restart(),
    new_key("adapters.slack.update_seconds", SettingShape::Count { least: 1 }, Some("2")).needs_restart(),
    new_key("adapters.discord.token", SettingShape::Text, None)
        .with_other_variables(&["DISCORD_BOT_TOKEN"])
        .mark_secret()
        .needs_restart(),
    new_key("adapters.discord.api_url", SettingShape::Text, Some("https://discord.com")).needs_restart(),
    new_key("adapters.discord.gateway_url", SettingShape::Text, Some("wss://gateway.discord.gg")).needs_restart(),
    new_key("adapters.discord.allowed_users", SettingShape::List, Some("")),
    new_key("adapters.discord.allow_all", SettingShape::Bool, Some("false")),
    new_key("adapters.discord.streaming", SettingShape::OneOf(&["stream", "batch"]), Some("stream")).needs_restart(),
    new_key("adapters.discord.update_seconds", SettingShape::Count { least: 1 }, Some("2")).needs_restart(),
    new_key("adapters.telegram.token", SettingShape::Text, None)
        .with_other_variables(&["TELEGRAM_BOT_TOKEN"])
        .mark_secret()
        .needs_restart(),
    new_key("adapters.telegram.api_url", SettingShape::Text, Some("https://api.telegram.org")).needs_restart(),
    new_key("adapters.telegram.webhook_secret", SettingShape::Text, None).mark_secret().needs_restart(),
    new_key("adapters.telegram.allowed_users", SettingShape::List, Some("")),
    new_key("adapters.telegram.allow_all", SettingShape::Bool, Some("false")),
    new_key("adapters.telegram.streaming", SettingShape::OneOf(&["stream", "batch"]), Some("stream")).needs_restart(),
    new_key("adapters.telegram.update_seconds", SettingShape::Count { least: 1 }, Some("3")).needs_restart(),
    new_key("adapters.test.enabled", SettingShape::Bool, Some("false")).needs_restart(),
];

pub(super) fn find_key(name: &str) -> Option<&'static SettingKey> {
    SETTING_KEYS.iter().find(|key| key.name == name)
}

/// Returns the most similar existing name, if any is similar.
pub(super) fn nearest_name<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let near = |name: &&'a str| {
        let whole = strsim::jaro_winkler(wrong, name);
        // A key in the wrong section is a common mistake.
        let tail = strsim::jaro_winkler(last_of(wrong), last(name)) * 0.95;
        whole.max(tail)
    };
    let best = names.into_iter().max_by(|a, b| near(a).total_cmp(&near(b)))?;
    (near(&best) > 0.8).then_some(best)
}

fn last_of(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
