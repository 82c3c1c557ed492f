//! `grove agent list`

use std::process::ExitCode;

use grove_agents::health::{Health, health};
use grove_agents::registry::Agents;
use grove_environments::settings::AgentSettings;
use grove_environments::settings::agent_catalog::KNOWN;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::output::{self, Table};

/// An agent as it is found.
struct Found {
    name: String,
    settings: AgentSettings,
    health: Health,
    default: bool,
}

pub async fn run(context: &Context) -> Done {
    let waiting = output::spinner("Asking the agents", context.json);
    let found = look(context).await;
    waiting.finish_and_clear();
    if context.json {
        output::json(&found.iter().map(in_json).collect::<Vec<_>>());
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["name", "kind", "state", "version", "what to do"]);
    for found in &found {
        let name = output::strong(&found.name);
        table.row([
            if found.default { format!("{name} ← default") } else { name },
            found.settings.kind.as_str().to_owned(),
            state(&found.health).to_owned(),
            found.health.version.clone().unwrap_or_default(),
            output::dim(&found.health.hint),
        ]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

/// All that can be chosen, and the known ones that could be.
async fn look(context: &Context) -> Vec<Found> {
    let agents = Agents::new(&context.settings);
    let mut names = agents.names();
    names.extend(KNOWN.iter().map(|known| known.name.to_owned()));
    names.sort();
    names.dedup();
    let mut found = Vec::new();
    for name in names {
        let Ok(settings) = agents.settings_of(&name) else { continue };
        let health = health(&name, &settings).await;
        found.push(Found { default: name == agents.default_name(), name, settings, health });
    }
    found
}

fn state(health: &Health) -> &'static str {
    match (&health.program, health.logged_in) {
        (None, _) => "not installed",
        (Some(_), Some(false)) => "not logged in",
        (Some(_), _) => "ready",
    }
}

fn in_json(found: &Found) -> Value {
    json!({
        "name": found.name,
        "kind": found.settings.kind.as_str(),
        "command": found.settings.command,
        "default": found.default,
        "state": state(&found.health),
        "path": found.health.program,
        "version": found.health.version,
        "logged_in": found.health.logged_in,
        "hint": found.health.hint,
    })
}
