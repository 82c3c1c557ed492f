//! `/worktree hibernate [NAME]` and `/worktree wake [NAME]`

use grove_environments::problem::Problem;
use grove_environments::words::done;

use crate::commands::slash_command::WorktreeArgs;
use crate::commands::worktree::named_environment;
use crate::replies;
use crate::turn_context::TurnContext;

pub async fn hibernate_worktree(context: &TurnContext<'_>, args: &WorktreeArgs) -> Result<String, Problem> {
    let (codebase, environment) = named_environment(context, args).await?;
    let slept = context.conversations.environments.hibernate_environment(&codebase, &environment).await?;
    Ok(replies::join_lines(done::describe_hibernated(&slept)))
}

pub async fn wake_worktree(context: &TurnContext<'_>, args: &WorktreeArgs) -> Result<String, Problem> {
    let (codebase, environment) = named_environment(context, args).await?;
    let woken = context.conversations.environments.wake_environment(&codebase, &environment).await?;
    let awake = format!("`{}` is awake.", woken.environment.branch);
    Ok(replies::join_lines(std::iter::once(awake.into()).chain(done::folders_gone(&woken.gone))))
}
