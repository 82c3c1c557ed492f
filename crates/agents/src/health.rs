//! Checks whether an agent is installed, in which version, and whether it is logged in.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use grove_environments::maintenance::doctor::{CheckResult, DoctorCheck, new_check};
use grove_environments::settings::agent_catalog::{find_known_agent, find_program, of_kind};
use grove_environments::settings::{AgentKind, AgentSettings, Settings};

use crate::environment::passed_on;
use crate::registry::AgentRegistry;

/// The time that a program has to print its version or login status.
const HEALTH_CHECK_TIMEOUT: Duration = Duration::from_secs(15);

/// The facts about an agent that can be found without running it on a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentHealth {
    /// The path of its program; `None` if it is not installed.
    pub program: Option<PathBuf>,
    pub version: Option<String>,
    /// `None` if only a real run could tell.
    pub logged_in: Option<bool>,
    /// The recommended action; empty if there is none.
    pub hint: String,
}

/// Asks an agent's program for its version and login status.
pub async fn check_agent_health(name: &str, settings: &AgentSettings) -> AgentHealth {
    let known = find_known_agent(name).or_else(|| of_kind(settings.kind));
    let program = settings.command.first().and_then(|program| find_program(program, &settings.env));
    let Some(program) = program else {
        let hint = known.map_or("Install it, or correct `command` of the agent.", |known| known.install).to_owned();
        return AgentHealth { program: None, version: None, logged_in: None, hint };
    };
    // For an ACP agent only the program is used: the other arguments switch it to the protocol.
    let own = if settings.kind == AgentKind::Acp { &settings.command[..1] } else { &settings.command[..] };
    let ask = async |words: &[&str]| run_probe(own, words, settings).await;
    let version = match settings.kind {
        // It can be any program, and what it would do with an argument is unknown.
        AgentKind::Command => None,
        _ => ask(&["--version"]).await.and_then(|(_, text)| text.lines().next().map(|line| line.trim().to_owned())),
    };
    // An agent with its own key does not need to be logged in.
    let has_key = settings.env.keys().any(|variable| variable.contains("KEY") || variable.contains("TOKEN"));
    let logged_in = match settings.kind {
        AgentKind::Claude => ask(&["auth", "status"]).await.map(|(well, _)| well),
        AgentKind::Codex => ask(&["login", "status"]).await.map(|(well, _)| well).filter(|well| *well || !has_key),
        AgentKind::Acp | AgentKind::Command => None,
    };
    let hint = known.filter(|_| logged_in == Some(false)).map_or("", |known| known.login).to_owned();
    AgentHealth { program: Some(program), version, logged_in, hint }
}

/// Returns whether the program succeeded, and its output. `None` if it did not answer.
async fn run_probe(own: &[String], words: &[&str], settings: &AgentSettings) -> Option<(bool, String)> {
    let (program, rest) = own.split_first()?;
    let mut command = tokio::process::Command::new(find_program(program, &settings.env)?);
    command.args(rest).args(words).env_clear().envs(passed_on()).envs(&settings.env);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(HEALTH_CHECK_TIMEOUT, command.output()).await.ok()?.ok()?;
    Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Returns the checks of `grove doctor` about the agents that people can use.
pub async fn examine_agents(settings: &Settings) -> Vec<DoctorCheck> {
    let agents = AgentRegistry::new(settings);
    let mut checks = Vec::new();
    for name in agents.agent_names() {
        let Ok(settings) = agents.settings_of(&name) else { continue };
        let health = check_agent_health(&name, &settings).await;
        let about = format!("agent {name}");
        checks.push(match (&health.program, health.logged_in) {
            (None, _) => new_check(&about, CheckResult::Bad, "not installed", health.hint),
            (Some(_), Some(false)) => new_check(&about, CheckResult::Warning, "not logged in", health.hint),
            (Some(program), _) => {
                let detail = health.version.unwrap_or_else(|| program.display().to_string());
                new_check(&about, CheckResult::Good, detail, "")
            }
        });
    }
    if let Some(missing) = Some(agents.default_name()).filter(|name| agents.settings_of(name).is_err()) {
        let detail = format!("`agent.default` is `{missing}`, which is no agent");
        checks.push(new_check(
            "agents",
            CheckResult::Bad,
            detail,
            format!("There are: {}.", agents.agent_names().join(", ")),
        ));
    }
    checks
}
