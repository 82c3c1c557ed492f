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
            ("queue", format!("{} running, {} waiting", queue["running"], queue["waiting"])),
        ]);
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
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
    let (running, waiting) = store.queue().await?;
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "codebases": codebases.len(),
        "worktrees": worktrees,
        "pool": {},
        "adapters": {},
        "queue": { "running": running, "waiting": waiting },
    }))
}
