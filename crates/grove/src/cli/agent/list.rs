//! `grove agent list`

use std::process::ExitCode;

use grove_agents::health::{AgentHealth, check_agent_health};
use grove_agents::registry::AgentRegistry;
use grove_environments::settings::AgentSettings;
use grove_environments::settings::agent_catalog::KNOWN_AGENTS;
use serde_json::{Value, json};

use super::{CliContext, CommandResult};
use crate::output::{self, OutputTable};

/// An agent that was found.
struct FoundAgent {
    name: String,
    settings: AgentSettings,
    health: AgentHealth,
    default: bool,
}

pub async fn run(context: &CliContext) -> CommandResult {
    let waiting = output::start_spinner("Asking the agents", context.json);
    let found = find_agents(context).await;
    waiting.finish_and_clear();
    if context.json {
        output::print_json(&found.iter().map(in_json).collect::<Vec<_>>());
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = OutputTable::new(["name", "kind", "state", "version", "what to do"]);
    for found in &found {
        let name = output::style_strong(&found.name);
        table.add_row([
            if found.default { format!("{name} ← default") } else { name },
            found.settings.kind.as_str().to_owned(),
            agent_state(&found.health).to_owned(),
            found.health.version.clone().unwrap_or_default(),
            output::style_dim(&found.health.hint),
        ]);
    }
    table.print_table();
    Ok(ExitCode::SUCCESS)
}

/// Returns all agents that can be chosen, and the known ones that could be set up.
async fn find_agents(context: &CliContext) -> Vec<FoundAgent> {
    let agents = AgentRegistry::new(&context.settings);
    let mut names = agents.agent_names();
    names.extend(KNOWN_AGENTS.iter().map(|known| known.name.to_owned()));
    names.sort();
    names.dedup();
    let mut found = Vec::new();
    for name in names {
        let Ok(settings) = agents.settings_of(&name) else { continue };
        let health = check_agent_health(&name, &settings).await;
        found.push(FoundAgent { default: name == agents.default_name(), name, settings, health });
    }
    found
}

fn agent_state(health: &AgentHealth) -> &'static str {
    match (&health.program, health.logged_in) {
        (None, _) => "not installed",
        (Some(_), Some(false)) => "not logged in",
        (Some(_), _) => "ready",
    }
}

fn in_json(found: &FoundAgent) -> Value {
    json!({
        "name": found.name,
        "kind": found.settings.kind.as_str(),
        "command": found.settings.command,
        "default": found.default,
        "state": agent_state(&found.health),
        "path": found.health.program,
        "version": found.health.version,
        "logged_in": found.health.logged_in,
        "hint": found.health.hint,
    })
}
