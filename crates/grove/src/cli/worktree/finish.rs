//! `grove worktree finish NAME` and `grove worktree abort NAME`

use std::process::ExitCode;

use clap::ValueEnum;
use grove_environments::remove::RemovalRequester;
use grove_environments::words::done;
use grove_git::finish::FinishMethod;
use grove_model::BranchName;

use super::{CliContext, CommandResult, WorktreeSelector, remove};
use crate::api_json::{FinishedJson, RemovedJson};
use crate::output;

#[derive(Debug, clap::Args)]
pub struct FinishArgs {
    #[command(flatten)]
    named: WorktreeSelector,
    /// How to merge; without it, what `cleanup.finish_method` says
    #[arg(long)]
    method: Option<FinishMethodArg>,
    /// The branch to merge, where another one than the recorded one is checked out
    #[arg(long, value_parser = BranchName::parse)]
    branch: Option<BranchName>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FinishMethodArg {
    /// A merge commit with both histories
    Merge,
    /// One commit with everything
    Squash,
}

pub async fn run_finish(context: &CliContext, args: &FinishArgs) -> CommandResult {
    let store = context.open_store().await?;
    let (codebase, environment) =
        context.resolve_environment(&store, args.named.codebase.as_deref(), &args.named.name).await?;
    let method = match args.method {
        Some(FinishMethodArg::Merge) => FinishMethod::Merge,
        Some(FinishMethodArg::Squash) => FinishMethod::Squash,
        None => context.settings.finish_method(),
    };
    let waiting = output::start_spinner("Merging", context.json);
    let finished = context.environments_in(&store);
    let branch = args.branch.as_ref();
    let finished = finished.finish_environment(&codebase, &environment, method, branch, RemovalRequester::Person).await;
    waiting.finish_and_clear();
    let (finished, removed) = finished?;
    let words = done::describe_finished(branch.unwrap_or(&environment.branch).as_str(), &finished);
    let removed = removed.inspect_err(|_| {
        output::print_warning(&format!("`{}` is merged into `{}`, but stays", environment.branch, finished.base));
    })?;
    if context.json {
        output::print_json(&FinishedJson::new(finished, Ok(removed)));
    } else {
        words.iter().for_each(output::print_text);
        remove::print_removed(&environment, &removed, context.settings.trash_keep_days());
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

pub async fn run_abort(context: &CliContext, named: &WorktreeSelector) -> CommandResult {
    let store = context.open_store().await?;
    let (codebase, environment) = context.resolve_environment(&store, named.codebase.as_deref(), &named.name).await?;
    let waiting = output::start_spinner("Removing the worktree", context.json);
    let removed = context.environments_in(&store).abort_environment(&codebase, &environment).await;
    waiting.finish_and_clear();
    let removed = removed?;
    if context.json {
        output::print_json(&RemovedJson::from(&removed));
    } else {
        remove::print_removed(&environment, &removed, context.settings.trash_keep_days());
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
