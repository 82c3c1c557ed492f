//! `grove cd [NAME]`: the directory of a worktree, for the shell function of `grove shell-init`.

use std::io::IsTerminal;
use std::process::ExitCode;

use grove_environments::codebases::CodebaseError;
use grove_environments::error::EnvironmentError;
use grove_environments::problem::Problem;
use grove_model::{Codebase, Environment};
use grove_store::Store;

use super::{CliContext, CommandResult, picker};
use crate::{output, words};

#[derive(Debug, clap::Args)]
pub struct CdArgs {
    /// A branch, a work such as issue-42, or the start of an id; without it, choose from a list
    name: Option<String>,
    /// The codebase that it is in; without it, the one that this directory is in, or all
    #[arg(long)]
    codebase: Option<String>,
    /// Print the directory, as the shell function needs it
    #[arg(long, hide = true)]
    print_path: bool,
}

pub async fn run(context: &CliContext, args: &CdArgs) -> CommandResult {
    if !args.print_path {
        return Err(words::no_shell_function());
    }
    let store = context.open_store().await?;
    let codebases = match context.codebases_in(&store).resolve_codebase(args.codebase.as_deref(), &context.cwd).await {
        Ok(codebase) => vec![codebase],
        Err(CodebaseError::Which(_)) => store.list_codebases().await?,
        Err(error) => return Err(error.into()),
    };
    let path = match &args.name {
        Some(name) => {
            let environment = find_in_all(context, &store, &codebases, name).await?;
            if !environment.path.is_dir() {
                return Err(words::nothing_to_enter(&environment));
            }
            environment.path
        }
        None => {
            if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
                return Err(words::no_name_to_enter());
            }
            let waiting = output::start_spinner("Looking at the worktrees", false);
            let environments = context.environments_in(&store);
            let mut views = Vec::new();
            for codebase in &codebases {
                views.extend(environments.environment_views(codebase, false).await?);
            }
            waiting.finish_and_clear();
            views.retain(|view| view.path.is_dir());
            if views.is_empty() {
                return Err(words::no_worktrees());
            }
            match picker::pick_worktree(&views, codebases.len() > 1)? {
                Some(view) => view.path.clone(),
                None => return Ok(ExitCode::from(130)),
            }
        }
    };
    store.close().await;
    output::print_path(&path);
    Ok(ExitCode::SUCCESS)
}

/// Returns the environment of this name, if one of the codebases has it.
async fn find_in_all(
    context: &CliContext,
    store: &Store,
    codebases: &[Codebase],
    name: &str,
) -> Result<Environment, Problem> {
    let environments = context.environments_in(store);
    let (mut found, mut names) = (None, Vec::new());
    for codebase in codebases {
        match environments.find_environment(codebase, name).await {
            Ok(environment) => {
                names.push(codebase.name.clone());
                found = Some(environment);
            }
            Err(EnvironmentError::NoSuch(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match (found, names.len()) {
        (Some(environment), 1) => Ok(environment),
        (Some(_), _) => Err(CodebaseError::Which(names).into()),
        (None, _) => Err(EnvironmentError::NoSuch(name.to_owned()).into()),
    }
}
