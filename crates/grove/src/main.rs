//! `grove`: gives every piece of work its own git worktree.

mod cli;
mod output;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
