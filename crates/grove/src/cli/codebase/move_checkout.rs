//! `grove codebase move NAME PATH`

use std::path::PathBuf;
use std::process::ExitCode;

use super::{CliContext, CommandResult};
use crate::api_json::CodebaseJson;
use crate::output;

#[derive(Debug, clap::Args)]
pub struct CodebaseMoveArgs {
    name: String,
    /// Where its checkout is now
    path: PathBuf,
}

pub async fn run(context: &CliContext, args: &CodebaseMoveArgs) -> CommandResult {
    let store = context.open_store().await?;
    let codebases = context.codebases_in(&store);
    let codebase = codebases.find_codebase(&args.name).await?;
    let moved = codebases.move_to(&codebase, &context.cwd.join(&args.path)).await?;
    if context.json {
        output::print_json(&CodebaseJson::from(&moved));
    } else {
        let (name, at) = (output::style_strong(&moved.name), moved.default_cwd.display());
        output::print_line(&format!("{name} is at {at} now; its worktrees were linked to it again"));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
