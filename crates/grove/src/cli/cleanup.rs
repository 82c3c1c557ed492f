//! `grove cleanup run`

use clap::Subcommand;

use super::worktree::cleanup;
use super::{Context, Done};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Remove what is merged, stale or gone, and what has been in the trash for long
    Run(cleanup::Args),
}

pub async fn run(context: &Context, command: Command) -> Done {
    match command {
        Command::Run(args) => cleanup::everything(context, &args).await,
    }
}
