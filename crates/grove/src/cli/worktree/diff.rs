//! `grove worktree diff [NAME]`

use std::process::ExitCode;

use grove_git::diff::{DiffFormat, DiffOptions};
use serde_json::json;

use super::{CliContext, CommandResult};
use crate::{output, pager};

#[derive(Debug, clap::Args)]
pub struct WorktreeDiffArgs {
    /// A branch, a work such as issue-42, or the start of an id; without it, the worktree of this directory
    name: Option<String>,
    /// The codebase that it is in; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
    /// Show the files with the number of changed lines
    #[arg(long)]
    stat: bool,
    /// Show the names of the files
    #[arg(long, conflicts_with = "stat")]
    name_only: bool,
}

pub async fn run(context: &CliContext, args: &WorktreeDiffArgs) -> CommandResult {
    let store = context.open_store().await?;
    let (codebase, environment) = match &args.name {
        Some(name) => context.resolve_environment(&store, args.codebase.as_deref(), name).await?,
        None => context.environment_here(&store, args.codebase.as_deref()).await?,
    };
    let format = match (args.stat, args.name_only) {
        (_, true) => DiffFormat::Names,
        (true, false) => DiffFormat::Stat,
        (false, false) => DiffFormat::Patch,
    };
    let options = DiffOptions { format, colour: !context.json && output::colours_wanted() };
    let diff = context.environments_in(&store).diff_environment(&codebase, &environment, options).await?;
    store.close().await;
    if diff.nested_repositories > 0 {
        output::print_warning(&match diff.nested_repositories {
            1 => "a repository inside is left out".to_owned(),
            many => format!("{many} repositories inside are left out"),
        });
    }
    let names = || diff.text.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    match (context.json, format) {
        (true, DiffFormat::Names) => {
            let files: Vec<String> = names().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
            output::print_json(&json!({ "branch": environment.branch, "files": files }));
        }
        (true, _) => {
            let key = if format == DiffFormat::Stat { "stat" } else { "patch" };
            let text = String::from_utf8_lossy(&diff.text);
            output::print_json(&json!({ "branch": environment.branch, key: text }));
        }
        (false, DiffFormat::Names) if output::on_terminal() => {
            pager::print_paged(names().map(printable_line).collect::<String>().as_bytes());
        }
        (false, DiffFormat::Names) => {
            output::print_bytes(&names().flat_map(|name| [name, b"\n"].concat()).collect::<Vec<u8>>());
        }
        (false, _) => pager::print_paged(&diff.text),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a name for the terminal; it may contain anything, also codes that direct a terminal.
fn printable_line(name: &[u8]) -> String {
    let plain = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    String::from_utf8_lossy(name).chars().map(plain).chain(["\n".to_owned()]).collect()
}
