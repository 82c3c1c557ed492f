//! `grove codebase …`

mod add;
mod list;
mod move_checkout;
mod remove;
mod show;

use clap::Subcommand;

use super::{CliContext, CommandResult};

#[derive(Debug, Subcommand)]
pub enum CodebaseCommand {
    /// Register a repository
    Add(add::CodebaseAddArgs),
    /// List the registered repositories
    List,
    /// Show one repository
    Show(show::CodebaseShowArgs),
    /// Say where a checkout is now that was moved
    Move(move_checkout::CodebaseMoveArgs),
    /// End a registration; checkouts and branches stay
    Remove(remove::CodebaseRemoveArgs),
}

pub async fn run(context: &CliContext, command: CodebaseCommand) -> CommandResult {
    match command {
        CodebaseCommand::Add(args) => add::run(context, &args).await,
        CodebaseCommand::List => list::run(context).await,
        CodebaseCommand::Show(args) => show::run(context, &args).await,
        CodebaseCommand::Move(args) => move_checkout::run(context, &args).await,
        CodebaseCommand::Remove(args) => remove::run(context, &args).await,
    }
}
