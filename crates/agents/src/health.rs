//! Whether an agent is there: installed, of which version, and logged in.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use grove_environments::maintenance::doctor::{Check, Verdict, check};
use grove_environments::settings::agent_catalog::{find, known, of_kind};
use grove_environments::settings::{AgentKind, AgentSettings, Settings};

use crate::environment::passed_on;
use crate::registry::Agents;

/// How long a program may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(15);

/// What was found out about an agent without giving it work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Where its program is; `None`: it is not installed.
    pub program: Option<PathBuf>,
    pub version: Option<String>,
    /// `None`: it cannot be told without giving it work.
    pub logged_in: Option<bool>,
    /// What to do; empty: nothing.
    pub hint: String,
}

/// Asks an agent's program how it is.
pub async fn health(name: &str, settings: &AgentSettings) -> Health {
    let known = known(name).or_else(|| of_kind(settings.kind));
    let program = settings.command.first().and_then(|program| find(program, &settings.env));
    let Some(program) = program else {
        let hint = known.map_or("Install it, or correct `command` of the agent.", |known| known.install).to_owned();
        return Health { program: None, version: None, logged_in: None, hint };
    };
    // Of an ACP agent only the program is asked: behind it stands how it is made to speak.
    let own = if settings.kind == AgentKind::Acp { &settings.command[..1] } else { &settings.command[..] };
    let ask = async |words: &[&str]| ask(own, words, settings).await;
    let version = match settings.kind {
        // Any program: nobody knows what it would do.
        AgentKind::Command => None,
        _ => ask(&["--version"]).await.and_then(|(_, text)| text.lines().next().map(|line| line.trim().to_owned())),
    };
    // Whoever was given a key of its own need not be logged in.
    let has_key = settings.env.keys().any(|variable| variable.contains("KEY") || variable.contains("TOKEN"));
    let logged_in = match settings.kind {
        AgentKind::Claude => ask(&["auth", "status"]).await.map(|(well, _)| well),
        AgentKind::Codex => ask(&["login", "status"]).await.map(|(well, _)| well).filter(|well| *well || !has_key),
        AgentKind::Acp | AgentKind::Command => None,
    };
    let hint = known.filter(|_| logged_in == Some(false)).map_or("", |known| known.login).to_owned();
    Health { program: Some(program), version, logged_in, hint }
}

/// Whether it ended well, and what it printed. `None`: it did not answer.
async fn ask(own: &[String], words: &[&str], settings: &AgentSettings) -> Option<(bool, String)> {
    let (program, rest) = own.split_first()?;
    let mut command = tokio::process::Command::new(find(program, &settings.env)?);
    command.args(rest).args(words).env_clear().envs(passed_on()).envs(&settings.env);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.ok()?.ok()?;
    Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The part of `grove doctor` about the agents that people can talk to.
pub async fn examine_agents(settings: &Settings) -> Vec<Check> {
    let agents = Agents::new(settings);
    let mut checks = Vec::new();
    for name in agents.names() {
        let Ok(settings) = agents.settings_of(&name) else { continue };
        let health = health(&name, &settings).await;
        let about = format!("agent {name}");
        checks.push(match (&health.program, health.logged_in) {
            (None, _) => check(&about, Verdict::Bad, "not installed", health.hint),
            (Some(_), Some(false)) => check(&about, Verdict::Warning, "not logged in", health.hint),
            (Some(program), _) => {
                let detail = health.version.unwrap_or_else(|| program.display().to_string());
                check(&about, Verdict::Good, detail, "")
            }
        });
    }
    if let Some(missing) = Some(agents.default_name()).filter(|name| agents.settings_of(name).is_err()) {
        let detail = format!("`agent.default` is `{missing}`, which is no agent");
        checks.push(check("agents", Verdict::Bad, detail, format!("There are: {}.", agents.names().join(", "))));
    }
    checks
}
