//! The variables that an agent's program inherits from our own environment.

use std::collections::BTreeMap;

use grove_environments::ready::WorkDir;

/// Variables that tell a program where it runs and where its own files are. None of them can contain a
/// secret: an agent's key is configured for that agent.
const INHERITED_VARIABLES: [&str; 19] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "SHELL",
    "LANG",
    "LC_ALL",
    "TERM",
    "TZ",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
];

/// Returns the agent's variables: the inherited ones, its location, and its configured ones.
pub(super) fn agent_variables(place: &WorkDir, configured: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut env = passed_on();
    let mut set = |name: &str, value: String| drop(env.insert(name.to_owned(), value));
    set("GIT_TERMINAL_PROMPT", "0".to_owned());
    // Git must not clean up the shared repository while other processes use it.
    set("GIT_CONFIG_COUNT", "1".to_owned());
    set("GIT_CONFIG_KEY_0", "gc.auto".to_owned());
    set("GIT_CONFIG_VALUE_0", "0".to_owned());
    let codebase = match place {
        WorkDir::Isolated(ready) => Some(&ready.codebase),
        WorkDir::Reading(ready) => Some(&ready.codebase),
        WorkDir::NoCodebase(_) => None,
    };
    if let Some(codebase) = codebase {
        set("GROVE_WORKTREE", place.path().display().to_string());
        set("GROVE_CODEBASE", codebase.name.clone());
        set("GROVE_REPO", codebase.default_cwd.display().to_string());
    }
    if let WorkDir::Isolated(ready) = place {
        set("GROVE_BRANCH", ready.environment.branch.to_string());
        set("GROVE_WORK", ready.environment.work.to_string());
    }
    env.extend(configured.clone());
    env
}

pub(super) fn passed_on() -> BTreeMap<String, String> {
    INHERITED_VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect()
}
