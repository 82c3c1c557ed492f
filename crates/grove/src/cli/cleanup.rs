//! `grove cleanup run`

use clap::Subcommand;

use super::worktree::cleanup;
use super::{CliContext, CommandResult};

#[derive(Debug, Subcommand)]
pub enum CleanupCommand {
    /// Remove what is merged, stale or gone, and what has been in the trash for long
    Run(cleanup::CleanupArgs),
}

pub async fn run(context: &CliContext, command: CleanupCommand) -> CommandResult {
    match command {
        CleanupCommand::Run(args) => cleanup::clean_everything(context, &args).await,
    }
}
