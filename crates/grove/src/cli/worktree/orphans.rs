//! `grove worktree orphans`

use std::process::ExitCode;

use serde_json::json;

use super::{Context, Done};
use crate::output::{self, Table};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The codebase; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
}

pub async fn run(context: &Context, args: &Args) -> Done {
    let store = context.store().await?;
    let codebase = context.codebases(&store).meant(args.codebase.as_deref(), &context.cwd).await?;
    let orphans = context.isolation(&store).orphans(&codebase).await?;
    if context.json {
        let list = orphans.iter().map(|o| json!({ "path": o.path, "branch": o.branch, "head_sha": o.head }));
        output::json(&list.collect::<Vec<_>>());
    } else if orphans.is_empty() {
        output::line("Every worktree is known.");
    } else {
        let mut table = Table::new(["branch", "head", "path"]);
        for orphan in orphans {
            let head = orphan.head.map(|sha| sha.short().to_owned()).unwrap_or_default();
            table.row([
                orphan.branch.unwrap_or_else(|| "no branch".to_owned()),
                head,
                orphan.path.display().to_string(),
            ]);
        }
        table.print();
        output::line("They are left alone. `grove worktree adopt PATH` takes one over.");
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
