//! `grove completions SHELL`

use std::process::ExitCode;

use clap::CommandFactory;

use super::CommandResult;

#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    shell: clap_complete::Shell,
}

pub fn run(args: &CompletionsArgs) -> CommandResult {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut super::GroveCli::command(), "grove", &mut text);
    crate::output::print_bytes(&text);
    Ok(ExitCode::SUCCESS)
}
