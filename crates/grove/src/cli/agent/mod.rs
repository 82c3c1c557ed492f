//! `grove agent …`

mod list;
mod test;

use clap::Subcommand;

use super::{Context, Done};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the agents that people can talk to, and what is missing
    List,
    /// Give an agent a small piece of work, and see whether it answers
    Test(test::Args),
}

pub async fn run(context: &Context, command: Command) -> Done {
    match command {
        Command::List => list::run(context).await,
        Command::Test(args) => test::run(context, &args).await,
    }
}
