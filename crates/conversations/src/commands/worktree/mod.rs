//! `/worktree …`

mod adopt;
mod cleanup;
mod create;
mod diff;
mod finish;
mod init;
mod link;
mod list;
mod orphans;
mod remove;
mod sleep;
mod sync;
mod undo;
mod why;

use grove_environments::problem::Problem;
use grove_model::{Codebase, Environment};

use crate::commands::slash_command::{WorktreeArgs, WorktreeCommand};
use crate::commands::{codebase_of as codebase, environment_of};
use crate::turn_context::TurnContext;
use crate::words;

pub async fn run_worktree_command(context: &TurnContext<'_>, command: &WorktreeCommand) -> Result<String, Problem> {
    match command {
        WorktreeCommand::Create(args) => create::create_worktree(context, args).await,
        WorktreeCommand::List => list::list_worktrees(context).await,
        WorktreeCommand::Remove(args) => remove::remove_worktree(context, args).await,
        WorktreeCommand::Undo(args) => undo::undo_removal(context, args).await,
        WorktreeCommand::Link(args) => link::link_worktree(context, args).await,
        WorktreeCommand::Sync(args) => sync::sync_worktree(context, args).await,
        WorktreeCommand::Finish(args) => finish::finish_worktree(context, args).await,
        WorktreeCommand::Abort(args) => finish::abort_worktree(context, args).await,
        WorktreeCommand::Diff(args) => diff::show_diff(context, args).await,
        WorktreeCommand::Hibernate(args) => sleep::hibernate_worktree(context, args).await,
        WorktreeCommand::Wake(args) => sleep::wake_worktree(context, args).await,
        WorktreeCommand::Cleanup(args) => cleanup::clean_up_worktrees(context, args).await,
        WorktreeCommand::Init(args) => init::run_init_script(context, args).await,
        WorktreeCommand::Orphans => orphans::list_orphans(context).await,
        WorktreeCommand::Adopt(args) => adopt::adopt_worktree(context, args).await,
        WorktreeCommand::Why(args) => why::explain_worktree(context, args).await,
    }
}

/// Returns the conversation's own environment.
pub async fn own_environment(context: &TurnContext<'_>) -> Result<(Codebase, Environment), Problem> {
    let codebase = codebase(context).await?;
    let environment = environment_of(context).await?;
    Ok((codebase, environment.ok_or_else(words::no_own_worktree)?))
}

/// Returns the named environment, or the conversation's own.
async fn named_environment(
    context: &TurnContext<'_>,
    WorktreeArgs { worktree }: &WorktreeArgs,
) -> Result<(Codebase, Environment), Problem> {
    let codebase = codebase(context).await?;
    let environment = match worktree {
        Some(name) => context.conversations.environments.find_environment(&codebase, name).await?,
        None => environment_of(context).await?.ok_or_else(words::no_named_worktree)?,
    };
    Ok((codebase, environment))
}

/// Ends the conversation's session together with its worktree.
async fn end_session(context: &TurnContext<'_>, environment: &Environment) -> Result<(), Problem> {
    if context.conversation.environment == Some(environment.id) {
        context.conversations.store.end_sessions(&context.conversation_ref()).await?;
        context.conversations.store.told_of_removal(context.conversation.id).await?;
    }
    Ok(())
}
