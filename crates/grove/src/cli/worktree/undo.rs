//! `grove worktree undo [NAME]`

use std::process::ExitCode;

use grove_environments::remove::Restored;
use grove_environments::remove::trash::find_latest;
use grove_environments::words::done;

use super::{Context, Done, view_of};
use crate::api_json::with_folders;
use crate::output;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A branch, a work such as issue-42, or the start of an id; without it, what was removed last
    name: Option<String>,
    /// The codebase that it was in; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
}

pub async fn run(context: &Context, args: &Args) -> Done {
    let store = context.store().await?;
    let codebase = context.codebases(&store).meant(args.codebase.as_deref(), &context.cwd).await?;
    let isolation = context.isolation(&store);
    // What a crash left half way is in the trash or back first.
    isolation.reconcile(&codebase).await?;
    let trash = isolation.trash(&codebase).await?;
    let item = find_latest(args.name.as_deref(), &trash)?;
    let waiting = output::spinner("Bringing the worktree back", context.json);
    let restored = isolation.undo(&codebase, &item.environment).await;
    waiting.finish_and_clear();
    let Restored { environment, gone } = restored?;
    let view = view_of(context, &store, &codebase, environment).await?;
    if context.json {
        output::json(&with_folders(&view, "regenerable_gone", &gone)?);
    } else {
        output::line(&format!("Brought back {}.", output::strong(&format!("`{}`", view.branch))));
        output::fields(&[("path", view.path.display().to_string())]);
        done::folders_gone(&gone).iter().for_each(|line| output::words(line));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
