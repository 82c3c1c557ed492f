//! `grove`: gives every piece of work its own git worktree.

mod api_json;
mod cli;
mod log;
mod output;
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
