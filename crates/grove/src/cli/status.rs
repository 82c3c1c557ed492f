//! `grove status`

use std::collections::BTreeMap;
use std::process::ExitCode;

use super::{CliContext, CommandResult};
use crate::api_json::{AdapterJson, load_status};
use crate::output;

pub async fn run(context: &CliContext) -> CommandResult {
    let store = context.open_store().await?;
    let status = load_status(&store, &context.environments_in(&store)).await?;
    if context.json {
        output::print_json(&status);
    } else {
        let counts = status.worktrees.by_state().into_iter().filter(|(_, count)| *count > 0);
        let counts: Vec<String> = counts.map(|(state, count)| format!("{count} {state}")).collect();
        let breakdown = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
        output::print_fields(&[
            ("version", status.version.to_owned()),
            ("codebases", status.codebases.to_string()),
            ("worktrees", format!("{}{breakdown}", status.worktrees.total)),
            ("adapters", adapters_in_words(&status.adapters)),
            ("queue", format!("{} running, {} waiting", status.queue.running, status.queue.waiting)),
        ]);
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

fn adapters_in_words(adapters: &BTreeMap<String, AdapterJson>) -> String {
    let words = |(name, adapter): (&String, &AdapterJson)| {
        let (state, detail) =
            (adapter.state.as_deref().unwrap_or_default(), adapter.detail.as_deref().unwrap_or_default());
        let behind = if adapter.waiting == 0 { String::new() } else { format!(", {} waiting", adapter.waiting) };
        format!("{name} {state} ({detail}{behind})")
    };
    let all: Vec<String> = adapters.iter().map(words).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
