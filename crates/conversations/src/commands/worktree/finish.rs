//! `/worktree finish [--method merge|squash] [--branch NAME]` and `/worktree abort`

use grove_environments::problem::Problem;
use grove_environments::remove::RemovalRequester;
use grove_environments::words::done;

use crate::commands::worktree::{CommandLine, named_environment};
use crate::turn_context::TurnContext;

pub async fn finish_worktree(desk: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let method = line.take_flag_value("--method")?.as_deref().map(str::parse).transpose()?;
    let method = method.unwrap_or(desk.talks.settings.finish_method());
    let named = super::named_branch(&mut line)?;
    let (codebase, environment) = named_environment(desk, &mut line).await?;
    let (isolation, asker) = (&desk.talks.isolation, RemovalRequester::Conversation(desk.conversation_ref()));
    let (finished, removed) =
        isolation.finish_environment(&codebase, &environment, method, named.as_ref(), asker).await?;
    let branch = named.as_ref().unwrap_or(&environment.branch).as_str();
    let mut lines = done::describe_finished(branch, &finished);
    match removed {
        Ok(removed) => {
            lines.extend(done::describe_removed(branch, &removed, desk.talks.settings.trash_keep_days()));
            end_session(desk, &environment).await?;
        }
        Err(error) => lines.push(format!("The worktree stays: {}", Problem::from(error).message)),
    }
    Ok(lines.join("\n"))
}

pub async fn abort_worktree(desk: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let (codebase, environment) = named_environment(desk, &mut line).await?;
    let removed = desk.talks.isolation.abort_environment(&codebase, &environment).await?;
    end_session(desk, &environment).await?;
    let days = desk.talks.settings.trash_keep_days();
    Ok(done::describe_removed(environment.branch.as_str(), &removed, days).join("\n"))
}

/// Ends the conversation's session together with its worktree.
async fn end_session(desk: &TurnContext<'_>, environment: &grove_model::Environment) -> Result<(), Problem> {
    if desk.conversation.environment == Some(environment.id) {
        desk.talks.store.end_sessions(&desk.conversation_ref()).await?;
        desk.talks.store.told_of_removal(desk.conversation.id).await?;
    }
    Ok(())
}
