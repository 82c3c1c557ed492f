//! `grove status`

use std::collections::BTreeMap;
use std::process::ExitCode;

use grove_engine::Problem;
use grove_engine::isolation::Isolation;
use grove_store::Store;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::output;

/// States that are counted one by one.
const COUNTED: [&str; 8] = ["fresh", "active", "dirty", "merged", "stale", "missing", "hibernated", "failed"];

pub async fn run(context: &Context) -> Done {
    let store = context.store().await?;
    let status = in_json(&store, &context.isolation(&store)).await?;
    if context.json {
        output::json(&status);
    } else {
        let worktrees = &status["worktrees"];
        let counts = COUNTED.iter().filter(|state| worktrees[**state] != 0);
        let counts: Vec<String> = counts.map(|state| format!("{} {state}", worktrees[*state])).collect();
        let breakdown = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
        let queue = &status["queue"];
        output::fields(&[
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

pub async fn in_json(store: &Store, isolation: &Isolation) -> Result<Value, Problem> {
    let codebases = store.codebases().await?;
    let mut counts: BTreeMap<&str, usize> = COUNTED.iter().map(|state| (*state, 0)).collect();
    let mut total = 0;
    for codebase in &codebases {
        for view in isolation.views(codebase, false).await? {
            total += 1;
            if let Some(count) = counts.get_mut(view.state.as_str()) {
                *count += 1;
            }
        }
    }
    let mut worktrees = json!(counts);
    worktrees["total"] = json!(total);
    // In the order in which words go through, so that nothing is overlooked on its way.
    let states = store.states().await?;
    let mut behind = Vec::new();
    for (platform, _) in &states {
        behind.push(store.unread_count(platform).await?);
    }
    let (running, waiting) = store.queue().await?;
    let mut adapters = serde_json::Map::new();
    for ((platform, state), unread) in states.into_iter().zip(behind) {
        let mut state: Value = serde_json::from_str(&state).unwrap_or_default();
        state["waiting"] = json!(unread + store.unsent_count(&platform).await?);
        adapters.insert(platform, state);
    }
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "codebases": codebases.len(),
        "worktrees": worktrees,
        "pool": {},
        "adapters": adapters,
        "queue": { "running": running, "waiting": waiting },
    }))
}
