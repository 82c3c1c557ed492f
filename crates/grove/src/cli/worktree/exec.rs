//! `grove worktree exec NAME -- COMMAND`

use std::ffi::OsString;
use std::os::unix::process::CommandExt;

use grove_model::Status;

use super::{CliContext, CommandResult};
use crate::words;

#[derive(Debug, clap::Args)]
pub struct ExecArgs {
    #[command(flatten)]
    named: super::WorktreeSelector,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Replaces this process with the command, so that signals and the exit code are the command's own.
pub async fn run(context: &CliContext, args: ExecArgs) -> CommandResult {
    let store = context.open_store().await?;
    let (codebase, environment) =
        context.resolve_environment(&store, args.named.codebase.as_deref(), &args.named.name).await?;
    if !matches!(environment.status, Status::Active | Status::Failed) {
        return Err(words::not_active(&environment.branch, environment.status));
    }
    // The command and all processes that it starts hold the lock: no process removes the worktree meanwhile.
    let environments = context.environments_in(&store);
    let lock = environments.open_command_lock(&codebase, &environment);
    match lock.and_then(|lock| Ok((lock.try_share()?, lock.let_inherit()?, lock))) {
        Ok((true, (), lock)) => std::mem::forget(lock),
        Ok((false, ..)) => return Err(words::being_moved(&environment.branch)),
        Err(error) => return Err(words::not_lockable(&environment.branch, &error)),
    }
    // The worktree may have been moved between our read and the lock.
    let now = store.find_environment(environment.id).await?;
    store.close().await;
    if now.is_none_or(|now| now.status != environment.status) {
        return Err(words::was_moved(&environment.branch));
    }
    if environment.path.is_dir() && !environments.is_in_place(&codebase, &environment) {
        return Err(words::not_its_worktree(&environment.path, &codebase.name));
    }
    if !environment.path.is_dir() {
        return Err(words::folder_missing(&environment.path));
    }
    let [program, rest @ ..] = args.command.as_slice() else {
        return Err(words::no_command());
    };
    let error = std::process::Command::new(program)
        .args(rest)
        .current_dir(&environment.path)
        .env("GROVE_WORKTREE", &environment.path)
        .env("GROVE_BRANCH", environment.branch.as_str())
        .env("GROVE_CODEBASE", &codebase.name)
        .env("GROVE_REPO", &codebase.default_cwd)
        .exec();
    Err(words::program_not_started(&program.to_string_lossy(), &error))
}
