//! `grove worktree init NAME`

use std::process::ExitCode;

use grove_environments::init::InitOutcome;
use serde_json::json;

use super::{CliContext, CommandResult, WorktreeSelector};
use crate::{output, words};

pub async fn run(context: &CliContext, named: &WorktreeSelector) -> CommandResult {
    let store = context.open_store().await?;
    let (codebase, environment) = context.resolve_environment(&store, named.codebase.as_deref(), &named.name).await?;
    let environments = context.environments_in(&store);
    let show = |text: &str| {
        if !context.json {
            output::print_script_output(text)
        }
    };
    let outcome = environments.initialize_environment(&codebase, &environment, true, &show).await?;
    let log = environments.init_log_path(environment.id);
    store.close().await;
    match outcome {
        InitOutcome::Succeeded if context.json => {
            output::print_json(&json!({ "branch": environment.branch, "status": "success", "log": log }));
        }
        InitOutcome::Succeeded => {
            output::print_text(&format!("The init script of `{}` succeeded.", environment.branch).into());
        }
        InitOutcome::NothingToDo => return Err(words::no_init_script(&environment.branch)),
        InitOutcome::NotApproved { path } => return Err(words::script_not_approved(path)),
    }
    Ok(ExitCode::SUCCESS)
}
