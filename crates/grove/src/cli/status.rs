//! `grove status`

use std::process::ExitCode;

use serde_json::Value;

use super::{CliContext, CommandResult};
use crate::api_json::{COUNTED_STATES, status_json};
use crate::output;

pub async fn run(context: &CliContext) -> CommandResult {
    let store = context.open_store().await?;
    let status = status_json(&store, &context.environments_in(&store)).await?;
    if context.json {
        output::print_json(&status);
    } else {
        let worktrees = &status["worktrees"];
        let counts = COUNTED_STATES.iter().filter(|state| worktrees[**state] != 0);
        let counts: Vec<String> = counts.map(|state| format!("{} {state}", worktrees[*state])).collect();
        let breakdown = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
        let queue = &status["queue"];
        output::print_fields(&[
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("codebases", status["codebases"].to_string()),
            ("worktrees", format!("{}{breakdown}", worktrees["total"])),
            ("adapters", adapters_in_words(&status["adapters"])),
            ("queue", format!("{} running, {} waiting", queue["running"], queue["waiting"])),
        ]);
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

fn adapters_in_words(adapters: &Value) -> String {
    let words = |(name, adapter): (&String, &Value)| {
        let text = |key: &str| adapter[key].as_str().unwrap_or_default().to_owned();
        let behind = if adapter["waiting"] == 0 { String::new() } else { format!(", {} waiting", adapter["waiting"]) };
        format!("{name} {} ({}{behind})", text("state"), text("detail"))
    };
    let all: Vec<String> = adapters.as_object().into_iter().flatten().map(words).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
