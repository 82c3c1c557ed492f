//! `grove worktree orphans`

use std::process::ExitCode;

use serde_json::json;

use super::{CliContext, CommandResult};
use crate::output::{self, OutputTable};

#[derive(Debug, clap::Args)]
pub struct OrphansArgs {
    /// The codebase; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
}

pub async fn run(context: &CliContext, args: &OrphansArgs) -> CommandResult {
    let store = context.open_store().await?;
    let codebase = context.codebases_in(&store).resolve_codebase(args.codebase.as_deref(), &context.cwd).await?;
    let orphans = context.environments_in(&store).list_orphan_worktrees(&codebase).await?;
    if context.json {
        let list = orphans.iter().map(|o| json!({ "path": o.path, "branch": o.branch, "head_sha": o.head }));
        output::print_json(&list.collect::<Vec<_>>());
    } else if orphans.is_empty() {
        output::print_line("Every worktree is known.");
    } else {
        let mut table = OutputTable::new(["branch", "head", "path"]);
        for orphan in orphans {
            let head = orphan.head.map(|sha| sha.short_sha().to_owned()).unwrap_or_default();
            table.add_row([
                orphan.branch.unwrap_or_else(|| "no branch".to_owned()),
                head,
                orphan.path.display().to_string(),
            ]);
        }
        table.print_table();
        output::print_text(&"They are left alone. `grove worktree adopt PATH` takes one over.".into());
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
