//! `/worktree hibernate [NAME]` and `/worktree wake [NAME]`

use grove_environments::problem::Problem;
use grove_environments::words::done;

use crate::commands::worktree::{CommandLine, named_environment};
use crate::turn_context::TurnContext;

pub async fn hibernate_worktree(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let (codebase, environment) = named_environment(context, &mut line).await?;
    let slept = context.conversations.environments.hibernate_environment(&codebase, &environment).await?;
    Ok(done::describe_hibernated(&slept).join("\n"))
}

pub async fn wake_worktree(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let (codebase, environment) = named_environment(context, &mut line).await?;
    let woken = context.conversations.environments.wake_environment(&codebase, &environment).await?;
    let awake = format!("`{}` is awake.", woken.environment.branch);
    Ok(std::iter::once(awake).chain(done::folders_gone(&woken.gone)).collect::<Vec<_>>().join("\n"))
}
