//! `grove codebase remove NAME`

use std::process::ExitCode;

use serde_json::json;

use super::{CliContext, CommandResult};
use crate::output;

#[derive(Debug, clap::Args)]
pub struct CodebaseRemoveArgs {
    name: String,
}

pub async fn run(context: &CliContext, args: &CodebaseRemoveArgs) -> CommandResult {
    let store = context.open_store().await?;
    let codebases = context.codebases_in(&store);
    let codebase = codebases.find_codebase(&args.name).await?;
    let left = codebases.remove_codebase(&codebase).await?;
    if context.json {
        output::print_json(&json!({ "removed": codebase.name, "left": left }));
    } else {
        output::print_line(&format!(
            "{} is no longer registered; its checkout stays at {}",
            output::style_strong(&codebase.name),
            codebase.default_cwd.display()
        ));
        for path in left {
            output::print_line(&format!("  its worktree stays at {}", path.display()));
        }
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
