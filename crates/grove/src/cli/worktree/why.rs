//! `grove worktree why NAME`

use std::process::ExitCode;

use grove_environments::create::decide::DecisionStep;
use serde_json::json;

use super::{CliContext, CommandResult, WorktreeSelector};
use crate::output::{self, OutputTable};

pub async fn run(context: &CliContext, named: &WorktreeSelector) -> CommandResult {
    let store = context.open_store().await?;
    let (_, environment) = context.resolve_environment(&store, named.codebase.as_deref(), &named.name).await?;
    let kept = store.last_resolution(environment.id).await?;
    let steps: Vec<DecisionStep> = kept.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    if context.json {
        output::print_json(&json!({ "environment": environment.id, "steps": steps }));
    } else if steps.is_empty() {
        output::print_line("Nothing was kept of how it was chosen.");
    } else {
        let mut table = OutputTable::new(["candidate", "outcome", "reason"]);
        for step in steps {
            table.add_row([step.candidate, output::style_strong(&step.outcome), step.reason]);
        }
        table.print_table();
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
