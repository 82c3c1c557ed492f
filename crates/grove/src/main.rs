//! `grove`: gives every piece of work its own git worktree.

mod api_json;
mod cli;
mod columns;
mod log;
mod output;
mod pager;
mod server;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
