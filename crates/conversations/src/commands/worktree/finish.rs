//! `/worktree finish [NAME] [--method merge|squash] [--branch NAME]` and `/worktree abort [NAME]`

use grove_environments::problem::Problem;
use grove_environments::remove::RemovalRequester;
use grove_environments::words::done;

use crate::commands::slash_command::{FinishArgs, WorktreeArgs};
use crate::commands::worktree::{end_session, named_environment};
use crate::replies;
use crate::turn_context::TurnContext;

pub async fn finish_worktree(context: &TurnContext<'_>, args: &FinishArgs) -> Result<String, Problem> {
    let FinishArgs { named, method, branch } = args;
    let method = method.unwrap_or(context.conversations.settings.current().finish_method());
    let (codebase, environment) = named_environment(context, named).await?;
    let (environments, requester) =
        (&context.conversations.environments, RemovalRequester::Conversation(context.conversation_ref()));
    let (finished, removed) =
        environments.finish_environment(&codebase, &environment, method, branch.as_ref(), requester).await?;
    let branch = branch.as_ref().unwrap_or(&environment.branch).as_str();
    let mut lines = done::describe_finished(branch, &finished);
    match removed {
        Ok(removed) => {
            lines.extend(done::describe_removed(
                branch,
                &removed,
                context.conversations.settings.current().trash_keep_days(),
            ));
            end_session(context, &environment).await?;
        }
        Err(error) => lines.push(format!("The worktree stays: {}", Problem::from(error).message).into()),
    }
    Ok(replies::join_lines(lines))
}

pub async fn abort_worktree(context: &TurnContext<'_>, args: &WorktreeArgs) -> Result<String, Problem> {
    let (codebase, environment) = named_environment(context, args).await?;
    let removed = context.conversations.environments.abort_environment(&codebase, &environment).await?;
    end_session(context, &environment).await?;
    let days = context.conversations.settings.current().trash_keep_days();
    Ok(replies::join_lines(done::describe_removed(environment.branch.as_str(), &removed, days)))
}
