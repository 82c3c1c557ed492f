//! `grove man [--out DIR]`: the manual pages.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;

use super::{CommandResult, GroveCli};
use crate::{output, words};

#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write a page for every command into this directory, as in ~/.local/share/man/man1
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub fn run(args: &ManArgs) -> CommandResult {
    let command = GroveCli::command();
    let Some(dir) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).map_err(|error| words::no_manual(&error))?;
        output::print_bytes(&page);
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(dir).map_err(|error| words::no_manual(&error))?;
    clap_mangen::generate_to(command, dir).map_err(|error| words::no_manual(&error))?;
    Ok(ExitCode::SUCCESS)
}
