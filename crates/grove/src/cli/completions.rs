//! `grove completions SHELL`

use std::process::ExitCode;

use clap::CommandFactory;

use super::Done;

#[derive(Debug, clap::Args)]
pub struct Args {
    shell: clap_complete::Shell,
}

pub fn run(args: &Args) -> Done {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut super::Grove::command(), "grove", &mut text);
    crate::output::raw(&text);
    Ok(ExitCode::SUCCESS)
}
