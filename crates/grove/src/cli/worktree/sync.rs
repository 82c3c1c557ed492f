//! `grove worktree sync NAME`

use std::process::ExitCode;

use grove_environments::words::done;
use serde_json::json;

use super::{CliContext, CommandResult, WorktreeSelector};
use crate::output;

pub async fn run(context: &CliContext, named: &WorktreeSelector) -> CommandResult {
    let store = context.open_store().await?;
    let (codebase, environment) = context.resolve_environment(&store, named.codebase.as_deref(), &named.name).await?;
    let waiting = output::start_spinner("Bringing it up to date", context.json);
    let synced = context.environments_in(&store).sync_environment(&codebase, &environment).await;
    waiting.finish_and_clear();
    let synced = synced?;
    if context.json {
        output::print_json(&json!({ "from": synced.from, "at": synced.at, "changed": synced.changed }));
    } else {
        output::print_text(&done::describe_synced(&synced));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
