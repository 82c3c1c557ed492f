//! `grove codebase remove NAME`

use std::process::ExitCode;

use serde_json::json;

use super::{Context, Done};
use crate::output;

#[derive(Debug, clap::Args)]
pub struct Args {
    name: String,
}

pub async fn run(context: &Context, args: &Args) -> Done {
    let store = context.store().await?;
    let codebases = context.codebases(&store);
    let codebase = codebases.named(&args.name).await?;
    let left = codebases.remove(&codebase).await?;
    if context.json {
        output::json(&json!({ "removed": codebase.name, "left": left }));
    } else {
        output::line(&format!(
            "{} is no longer registered; its checkout stays at {}",
            output::strong(&codebase.name),
            codebase.default_cwd.display()
        ));
        for path in left {
            output::line(&format!("  its worktree stays at {}", path.display()));
        }
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
