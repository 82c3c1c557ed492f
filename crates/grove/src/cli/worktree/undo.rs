//! `grove worktree undo [NAME]`

use std::process::ExitCode;

use grove_environments::remove::RestoredEnvironment;
use grove_environments::remove::trash::find_latest;
use grove_environments::words::done;

use super::{CliContext, CommandResult, view_of};
use crate::api_json::RestoredWorktreeJson;
use crate::output;

#[derive(Debug, clap::Args)]
pub struct UndoArgs {
    /// A branch, a work such as issue-42, or the start of an id; without it, what was removed last
    name: Option<String>,
    /// The codebase that it was in; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
}

pub async fn run(context: &CliContext, args: &UndoArgs) -> CommandResult {
    let store = context.open_store().await?;
    let codebase = context.codebases_in(&store).resolve_codebase(args.codebase.as_deref(), &context.cwd).await?;
    let environments = context.environments_in(&store);
    // First, work that a crash left unfinished is either moved to the trash or brought back.
    environments.reconcile_codebase(&codebase).await?;
    let trash = environments.list_trash(&codebase).await?;
    let item = find_latest(args.name.as_deref(), &trash)?;
    let waiting = output::start_spinner("Bringing the worktree back", context.json);
    let restored = environments.undo_removal(&codebase, &item.environment).await;
    waiting.finish_and_clear();
    let RestoredEnvironment { environment, gone } = restored?;
    let view = view_of(context, &store, &codebase, environment).await?;
    if context.json {
        output::print_json(&RestoredWorktreeJson::new(view, &gone));
    } else {
        output::print_text(&format!("Brought back `{}`.", view.branch).into());
        output::print_fields(&[("path", view.path.display().to_string())]);
        done::folders_gone(&gone).iter().for_each(output::print_text);
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
