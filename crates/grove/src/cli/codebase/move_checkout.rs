//! `grove codebase move NAME PATH`

use std::path::PathBuf;
use std::process::ExitCode;

use super::{Context, Done};
use crate::output;

#[derive(Debug, clap::Args)]
pub struct Args {
    name: String,
    /// Where its checkout is now
    path: PathBuf,
}

pub async fn run(context: &Context, args: &Args) -> Done {
    let store = context.store().await?;
    let codebases = context.codebases(&store);
    let codebase = codebases.named(&args.name).await?;
    let moved = codebases.move_to(&codebase, &context.cwd.join(&args.path)).await?;
    if context.json {
        output::json(&crate::api_json::codebase_json(&moved));
    } else {
        let (name, at) = (output::strong(&moved.name), moved.default_cwd.display());
        output::line(&format!("{name} is at {at} now; its worktrees were linked to it again"));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
