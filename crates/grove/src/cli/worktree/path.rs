//! `grove worktree path NAME`

use std::process::ExitCode;

use serde_json::json;

use super::{CliContext, CommandResult, WorktreeSelector};
use crate::output;

pub async fn run(context: &CliContext, named: &WorktreeSelector) -> CommandResult {
    let store = context.open_store().await?;
    let (_, environment) = context.resolve_environment(&store, named.codebase.as_deref(), &named.name).await?;
    if context.json {
        output::print_json(&json!({ "path": environment.path }));
    } else {
        output::print_path(&environment.path);
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
