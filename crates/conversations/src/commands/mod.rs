//! Slash commands, one file each. They do the same as the subcommands of the terminal, but answer in a
//! conversation.
//!
//! [`slash_command`] declares them, [`parse`] finds the command of a message, [`syntax`] tells how one is
//! written. `/run` and `/retry` are for the agent: `turn/command.rs` calls them and the handlers of this module.

pub(crate) mod agent;
pub(crate) mod codebase;
pub(crate) mod custom;
pub(crate) mod cwd;
pub mod help;
pub mod parse;
pub(crate) mod push;
pub(crate) mod reset;
pub mod slash_command;
pub(crate) mod status;
pub mod syntax;
pub mod trust;
pub(crate) mod worktree;

use grove_environments::problem::Problem;
use grove_model::{Codebase, Environment};

use crate::turn_context::TurnContext;
use crate::words;

/// Returns the conversation's codebase.
pub(crate) async fn codebase_of(context: &TurnContext<'_>) -> Result<Codebase, Problem> {
    let codebase = context.conversations.codebase_of(context.conversation).await?;
    codebase.ok_or_else(words::no_codebase)
}

/// Returns the environment that the conversation works in.
pub(crate) async fn environment_of(context: &TurnContext<'_>) -> Result<Option<Environment>, Problem> {
    Ok(match context.conversation.environment {
        Some(id) => context.conversations.store.find_environment(id).await?,
        None => None,
    })
}
