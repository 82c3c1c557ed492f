//! The table of all settings.

use crate::settings::value::Shape;

#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub shape: Shape,
    /// As a person would write it; `None` when what happens without it needs more than a value.
    pub default: Option<&'static str>,
    /// Variables with a name of their own, beside `GROVE_<SECTION>_<KEY>`.
    pub also: &'static [&'static str],
    /// May be set by the repository's own file.
    pub in_repository: bool,
    pub secret: bool,
}

impl Key {
    /// `GROVE_<SECTION>_<KEY>`.
    pub fn variable(&self) -> String {
        format!("GROVE_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

const fn key(name: &'static str, shape: Shape, default: Option<&'static str>) -> Key {
    Key { name, shape, default, also: &[], in_repository: false, secret: false }
}

impl Key {
    const fn also(mut self, names: &'static [&'static str]) -> Self {
        self.also = names;
        self
    }

    const fn in_repository(mut self) -> Self {
        self.in_repository = true;
        self
    }

    const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }
}

pub const KEYS: &[Key] = &[
    key("server.listen", Shape::Address, Some("127.0.0.1:3090")).also(&["PORT"]),
    key("server.token", Shape::Text, None).secret(),
    key("store.url", Shape::StoreUrl, None).also(&["DATABASE_URL"]).secret(),
    key("worktree.base", Shape::Path, None).also(&["WORKTREE_BASE"]),
    key("worktree.layout", Shape::OneOf(&["owner", "project", "sibling"]), Some("owner")),
    key("worktree.base_branch", Shape::Text, None).in_repository(),
    key("worktree.remote", Shape::Text, None),
    key("worktree.fetch", Shape::OneOf(&["auto", "always", "never"]), Some("auto")).in_repository(),
    key("worktree.fetch_timeout", Shape::Duration { least: 1 }, Some("15s")),
    key("worktree.copy", Shape::List, Some("")).in_repository(),
    key("worktree.submodules", Shape::BoolOr("require"), Some("true")).in_repository(),
    key("worktree.branch_prefix", Shape::BranchPrefix, Some("")).in_repository(),
    key("worktree.pool", Shape::Pool, Some("auto")),
    key("limits.max_worktrees_per_codebase", Shape::Count { least: 1 }, Some("25"))
        .also(&["MAX_WORKTREES_PER_CODEBASE"]),
    key("limits.max_concurrent_conversations", Shape::Count { least: 1 }, Some("10"))
        .also(&["MAX_CONCURRENT_CONVERSATIONS"]),
    key("limits.min_free_disk", Shape::Size, Some("1GiB")),
    key("cleanup.interval_hours", Shape::Count { least: 1 }, Some("6")).also(&["CLEANUP_INTERVAL_HOURS"]),
    key("cleanup.stale_days", Shape::Count { least: 1 }, Some("14")).also(&["STALE_THRESHOLD_DAYS"]),
    key("cleanup.trash_keep_days", Shape::Count { least: 1 }, Some("30")),
    key(
        "cleanup.regenerable",
        Shape::List,
        Some("target/,node_modules/,.venv/,__pycache__/,.tox/,.pytest_cache/,.mypy_cache/,.gradle/"),
    )
    .in_repository(),
    key("cleanup.regenerable_keep", Shape::Duration { least: 0 }, Some("24h")),
    key("cleanup.grace", Shape::Duration { least: 0 }, Some("1h")),
    key("cleanup.finish_method", Shape::OneOf(&["merge", "squash"]), Some("merge")),
    key("runs.on_restart", Shape::OneOf(&["ask", "retry"]), Some("ask")),
    key("push", Shape::OneOf(&["ask", "auto", "never"]), Some("ask")),
    key("init.timeout", Shape::Duration { least: 1 }, Some("10m")),
    key("security.allowed_root", Shape::Path, None).also(&["ALLOWED_ROOT_DIRECTORY"]),
    key("security.sandbox", Shape::OneOf(&["enforce", "warn", "off"]), None),
    key("agent.default", Shape::Text, None).in_repository(),
    key("adapters.github.token", Shape::Text, None).also(&["GITHUB_TOKEN"]).secret(),
    key("adapters.github.app_id", Shape::Count { least: 1 }, None),
    key("adapters.github.private_key_file", Shape::Path, None),
    key("adapters.github.webhook_secret", Shape::OneOrMore, Some("")).also(&["WEBHOOK_SECRET"]).secret(),
    key("adapters.github.mode", Shape::OneOf(&["webhook", "poll"]), Some("webhook")),
    key("adapters.github.poll_seconds", Shape::Count { least: 1 }, Some("30")),
    key("adapters.github.repos", Shape::List, Some("")),
    key("adapters.github.bot_name", Shape::Text, Some("grove")).also(&["GITHUB_BOT_MENTION"]),
    key("adapters.github.api_url", Shape::Text, Some("https://api.github.com")),
    key("adapters.github.allowed_users", Shape::List, Some("")).also(&["GITHUB_ALLOWED_USERS"]),
    key("adapters.github.allow_all", Shape::Bool, Some("false")),
    key("adapters.github.streaming", Shape::OneOf(&["stream", "batch"]), Some("stream")),
    key("adapters.test.enabled", Shape::Bool, Some("false")),
];

pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The nearest name that exists, if any is near.
pub(super) fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let near = |name: &&'a str| {
        let whole = strsim::jaro_winkler(wrong, name);
        // A key in the wrong section is a common slip.
        let tail = strsim::jaro_winkler(last_of(wrong), last(name)) * 0.95;
        whole.max(tail)
    };
    let best = names.into_iter().max_by(|a, b| near(a).total_cmp(&near(b)))?;
    (near(&best) > 0.8).then_some(best)
}

fn last_of(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
