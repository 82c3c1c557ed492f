//! `/worktree finish [--method merge|squash] [--branch NAME]` and `/worktree abort`

use grove_environments::problem::Problem;
use grove_environments::remove::RemovalRequester;
use grove_environments::words::done;

use crate::commands::worktree::{CommandLine, named_environment};
use crate::turn_context::TurnContext;

pub async fn finish_worktree(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let method = line.take_flag_value("--method")?.as_deref().map(str::parse).transpose()?;
    let method = method.unwrap_or(context.conversations.settings.finish_method());
    let named = super::named_branch(&mut line)?;
    let (codebase, environment) = named_environment(context, &mut line).await?;
    let (environments, requester) =
        (&context.conversations.environments, RemovalRequester::Conversation(context.conversation_ref()));
    let (finished, removed) =
        environments.finish_environment(&codebase, &environment, method, named.as_ref(), requester).await?;
    let branch = named.as_ref().unwrap_or(&environment.branch).as_str();
    let mut lines = done::describe_finished(branch, &finished);
    match removed {
        Ok(removed) => {
            lines.extend(done::describe_removed(branch, &removed, context.conversations.settings.trash_keep_days()));
            end_session(context, &environment).await?;
        }
        Err(error) => lines.push(format!("The worktree stays: {}", Problem::from(error).message)),
    }
    Ok(lines.join("\n"))
}

pub async fn abort_worktree(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let (codebase, environment) = named_environment(context, &mut line).await?;
    let removed = context.conversations.environments.abort_environment(&codebase, &environment).await?;
    end_session(context, &environment).await?;
    let days = context.conversations.settings.trash_keep_days();
    Ok(done::describe_removed(environment.branch.as_str(), &removed, days).join("\n"))
}

/// Ends the conversation's session together with its worktree.
async fn end_session(context: &TurnContext<'_>, environment: &grove_model::Environment) -> Result<(), Problem> {
    if context.conversation.environment == Some(environment.id) {
        context.conversations.store.end_sessions(&context.conversation_ref()).await?;
        context.conversations.store.told_of_removal(context.conversation.id).await?;
    }
    Ok(())
}
