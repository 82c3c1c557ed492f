//! `grove worktree exec NAME -- COMMAND`

use std::ffi::OsString;
use std::os::unix::process::CommandExt;

use grove_environments::problem::Problem;
use grove_git::lock::EnvironmentLock;
use grove_model::Status;

use super::{CliContext, CommandResult};

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
        let message = format!("`{}` is {}, so nothing was run there.", environment.branch, environment.status);
        return Err(Problem::new("not_active", message, "Wait until it is active."));
    }
    // The command and all processes that it starts hold the lock: no process removes the worktree meanwhile.
    let lock = EnvironmentLock::open(&codebase.git_common_dir, environment.id);
    match lock.and_then(|lock| Ok((lock.try_share()?, lock.let_inherit()?, lock))) {
        Ok((true, (), lock)) => std::mem::forget(lock),
        Ok((false, ..)) => {
            let message = format!("`{}` is being moved by another grove, so nothing was run.", environment.branch);
            return Err(Problem::new("busy", message, "Wait a moment and try again."));
        }
        Err(error) => {
            let message = format!("`{}` cannot be locked, so nothing was run: {error}.", environment.branch);
            return Err(Problem::new("not_writable", message, "Give yourself write access to the repository's .git."));
        }
    }
    // The worktree may have been moved between our read and the lock.
    let now = store.find_environment(environment.id).await?;
    store.close().await;
    if now.is_none_or(|now| now.status != environment.status) {
        let message = format!("`{}` was moved at this moment, so nothing was run.", environment.branch);
        return Err(Problem::new("busy", message, "Try again."));
    }
    let entry = grove_git::links::entry_of(&environment.path, &codebase.git_common_dir);
    if environment.path.is_dir() && !matches!(entry, Ok(Some(_))) {
        let message = format!(
            "{} is not a worktree of `{}` any more, so nothing was run.",
            environment.path.display(),
            codebase.name
        );
        return Err(Problem::new("environment_broken", message, "`grove doctor` says more."));
    }
    if !environment.path.is_dir() {
        let message = format!("{} is not there, so nothing was run.", environment.path.display());
        return Err(Problem::new("missing", message, "Make it again with `grove worktree create`."));
    }
    let [program, rest @ ..] = args.command.as_slice() else {
        return Err(Problem::new("usage", "A command is missing.", "Give it behind `--`."));
    };
    let error = std::process::Command::new(program)
        .args(rest)
        .current_dir(&environment.path)
        .env("GROVE_WORKTREE", &environment.path)
        .env("GROVE_BRANCH", environment.branch.as_str())
        .env("GROVE_CODEBASE", &codebase.name)
        .env("GROVE_REPO", &codebase.default_cwd)
        .exec();
    let message = format!("`{}` could not be started: {error}.", program.to_string_lossy());
    Err(Problem::new("exec_failed", message, "Check that the program is installed and on PATH."))
}
