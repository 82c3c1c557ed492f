//! `grove codebase …`

mod add;
mod list;
mod move_checkout;
mod remove;
mod show;

use clap::Subcommand;

use super::{Context, Done};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Register a repository
    Add(add::Args),
    /// List the registered repositories
    List,
    /// Show one repository
    Show(show::Args),
    /// Say where a checkout is now that was moved
    Move(move_checkout::Args),
    /// End a registration; checkouts and branches stay
    Remove(remove::Args),
}

pub async fn run(context: &Context, command: Command) -> Done {
    match command {
        Command::Add(args) => add::run(context, &args).await,
        Command::List => list::run(context).await,
        Command::Show(args) => show::run(context, &args).await,
        Command::Move(args) => move_checkout::run(context, &args).await,
        Command::Remove(args) => remove::run(context, &args).await,
    }
}
