//! `grove worktree …`

mod adopt;
pub mod cleanup;
mod create;
mod diff;
mod exec;
mod finish;
mod init;
mod list;
mod orphans;
mod path;
pub mod remove;
mod show;
mod sleep;
mod sync;
mod trash;
mod undo;
mod why;

use clap::Subcommand;
use grove_environments::inspect::list::EnvironmentView;
use grove_environments::problem::Problem;
use grove_model::{Codebase, Environment};
use grove_store::Store;

use super::{CliContext, CommandResult};
use crate::words;

#[derive(Debug, Subcommand)]
pub enum WorktreeCommand {
    /// Make a worktree for a piece of work, or find the one that it has
    Create(create::WorktreeCreateArgs),
    /// List the worktrees
    List(list::WorktreeListArgs),
    /// Show one worktree
    Show(WorktreeSelector),
    /// Print the path of a worktree, as in `cd "$(grove worktree path NAME)"`
    Path(WorktreeSelector),
    /// Show what was changed since the work began, with untracked files
    Diff(diff::WorktreeDiffArgs),
    /// Run a command inside a worktree
    Exec(exec::ExecArgs),
    /// Run the repository's init script in a worktree again
    Init(WorktreeSelector),
    /// Adopt a worktree that Grovekeeper did not create
    Adopt(adopt::AdoptArgs),
    /// Remove a worktree; everything in it can be brought back
    Remove(remove::WorktreeRemoveArgs),
    /// Bring back what was removed
    Undo(undo::UndoArgs),
    /// Remove the worktrees that are merged or stale
    #[command(subcommand)]
    Cleanup(cleanup::WorktreeCleanupCommand),
    /// Bring what is new in the base, or in its pull request, into a worktree
    Sync(WorktreeSelector),
    /// Merge a worktree's work into its base and remove it
    Finish(finish::FinishArgs),
    /// Give a worktree's work up: it goes with its branch, and can be brought back
    Abort(WorktreeSelector),
    /// Put a worktree away until it is needed again
    Hibernate(WorktreeSelector),
    /// Bring a hibernated worktree back
    Wake(WorktreeSelector),
    /// Look at what was removed
    #[command(subcommand)]
    Trash(trash::TrashCommand),
    /// List worktrees that no record knows
    Orphans(orphans::OrphansArgs),
    /// Say why a work is where it is
    Why(WorktreeSelector),
}

/// A worktree named by a person.
#[derive(Debug, clap::Args)]
pub struct WorktreeSelector {
    /// A branch, a work such as issue-42, or the start of an id
    name: String,
    /// The codebase that it is in; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
}

pub async fn run(context: &CliContext, command: WorktreeCommand) -> CommandResult {
    match command {
        WorktreeCommand::Create(args) => create::run(context, args).await,
        WorktreeCommand::List(args) => list::run(context, &args).await,
        WorktreeCommand::Show(named) => show::run(context, &named).await,
        WorktreeCommand::Path(named) => path::run(context, &named).await,
        WorktreeCommand::Diff(args) => diff::run(context, &args).await,
        WorktreeCommand::Exec(args) => exec::run(context, args).await,
        WorktreeCommand::Init(named) => init::run(context, &named).await,
        WorktreeCommand::Adopt(args) => adopt::run(context, &args).await,
        WorktreeCommand::Remove(args) => remove::run(context, &args).await,
        WorktreeCommand::Undo(args) => undo::run(context, &args).await,
        WorktreeCommand::Trash(command) => trash::run(context, command).await,
        WorktreeCommand::Cleanup(command) => cleanup::run(context, command).await,
        WorktreeCommand::Sync(named) => sync::run(context, &named).await,
        WorktreeCommand::Finish(args) => finish::run_finish(context, &args).await,
        WorktreeCommand::Abort(named) => finish::run_abort(context, &named).await,
        WorktreeCommand::Hibernate(named) => sleep::run_hibernate(context, &named).await,
        WorktreeCommand::Wake(named) => sleep::run_wake(context, &named).await,
        WorktreeCommand::Orphans(args) => orphans::run(context, &args).await,
        WorktreeCommand::Why(named) => why::run(context, &named).await,
    }
}

/// Returns one environment as scripts see it.
async fn view_of(
    context: &CliContext,
    store: &Store,
    codebase: &Codebase,
    environment: Environment,
) -> Result<EnvironmentView, Problem> {
    let mut views = context.environments_in(store).views_of(codebase, vec![environment]).await?;
    views.pop().ok_or_else(words::environment_gone)
}
