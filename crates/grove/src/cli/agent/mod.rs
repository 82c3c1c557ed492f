//! `grove agent …`

mod list;
mod test;

use clap::Subcommand;

use super::{CliContext, CommandResult};

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// List the agents that people can talk to, and what is missing
    List,
    /// Give an agent a small piece of work, and see whether it answers
    Test(test::AgentTestArgs),
}

pub async fn run(context: &CliContext, command: AgentCommand) -> CommandResult {
    match command {
        AgentCommand::List => list::run(context).await,
        AgentCommand::Test(args) => test::run(context, &args).await,
    }
}
