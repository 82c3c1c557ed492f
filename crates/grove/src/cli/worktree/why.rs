//! `grove worktree why NAME`

use std::process::ExitCode;

use grove_environments::create::decide::Step;
use serde_json::json;

use super::{Context, Done, Named};
use crate::output::{self, Table};

pub async fn run(context: &Context, named: &Named) -> Done {
    let store = context.store().await?;
    let (_, environment) = context.environment(&store, named.codebase.as_deref(), &named.name).await?;
    let kept = store.resolution(environment.id).await?;
    let steps: Vec<Step> = kept.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    if context.json {
        output::json(&json!({ "environment": environment.id, "steps": steps }));
    } else if steps.is_empty() {
        output::line("Nothing was kept of how it was chosen.");
    } else {
        let mut table = Table::new(["candidate", "outcome", "reason"]);
        for step in steps {
            table.row([step.candidate, output::strong(&step.outcome), step.reason]);
        }
        table.print();
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
