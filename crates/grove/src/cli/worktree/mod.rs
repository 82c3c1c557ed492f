//! `grove worktree …`

mod adopt;
pub mod cleanup;
mod create;
mod exec;
mod finish;
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
use grove_environments::inspect::list::View;
use grove_environments::problem::Problem;
use grove_model::{Codebase, Environment};
use grove_store::Store;

use super::{Context, Done};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a worktree for a piece of work, or find the one that it has
    Create(create::Args),
    /// List the worktrees
    List(list::Args),
    /// Show one worktree
    Show(Named),
    /// Print the path of a worktree, as in `cd "$(grove worktree path NAME)"`
    Path(Named),
    /// Run a command inside a worktree
    Exec(exec::Args),
    /// Take over a worktree that somebody else made
    Adopt(adopt::Args),
    /// Remove a worktree; everything in it can be brought back
    Remove(remove::Args),
    /// Bring back what was removed
    Undo(undo::Args),
    /// Remove the worktrees that are merged or stale
    #[command(subcommand)]
    Cleanup(cleanup::Command),
    /// Bring what is new in the base, or in its pull request, into a worktree
    Sync(Named),
    /// Merge a worktree's work into its base and remove it
    Finish(finish::Args),
    /// Give a worktree's work up: it goes with its branch, and can be brought back
    Abort(Named),
    /// Put a worktree away until it is needed again
    Hibernate(Named),
    /// Bring a hibernated worktree back
    Wake(Named),
    /// Look at what was removed
    #[command(subcommand)]
    Trash(trash::Command),
    /// List worktrees that no record knows
    Orphans(orphans::Args),
    /// Say why a work is where it is
    Why(Named),
}

/// A worktree named by a person.
#[derive(Debug, clap::Args)]
pub struct Named {
    /// A branch, a work such as issue-42, or the start of an id
    name: String,
    /// The codebase that it is in; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
}

pub async fn run(context: &Context, command: Command) -> Done {
    match command {
        Command::Create(args) => create::run(context, args).await,
        Command::List(args) => list::run(context, &args).await,
        Command::Show(named) => show::run(context, &named).await,
        Command::Path(named) => path::run(context, &named).await,
        Command::Exec(args) => exec::run(context, args).await,
        Command::Adopt(args) => adopt::run(context, &args).await,
        Command::Remove(args) => remove::run(context, &args).await,
        Command::Undo(args) => undo::run(context, &args).await,
        Command::Trash(command) => trash::run(context, command).await,
        Command::Cleanup(command) => cleanup::run(context, command).await,
        Command::Sync(named) => sync::run(context, &named).await,
        Command::Finish(args) => finish::finish(context, &args).await,
        Command::Abort(named) => finish::abort(context, &named).await,
        Command::Hibernate(named) => sleep::hibernate(context, &named).await,
        Command::Wake(named) => sleep::wake(context, &named).await,
        Command::Orphans(args) => orphans::run(context, &args).await,
        Command::Why(named) => why::run(context, &named).await,
    }
}

/// One environment as scripts see it.
async fn view_of(
    context: &Context,
    store: &Store,
    codebase: &Codebase,
    environment: Environment,
) -> Result<View, Problem> {
    let mut views = context.isolation(store).views_of(codebase, vec![environment]).await?;
    views.pop().ok_or_else(|| Problem::new("not_found", "The environment is gone.", "Try again."))
}
