//! `/worktree remove [NAME] [--force]`

use grove_environments::problem::Problem;
use grove_environments::remove::{RemovalRequester, RemoveOptions};
use grove_environments::words::done;

use crate::commands::worktree::{CommandLine, named_environment};
use crate::turn_context::TurnContext;

pub async fn remove_worktree(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let force = line.take_flag("--force") || line.take_flag("-f");
    let (codebase, environment) = named_environment(context, &mut line).await?;
    let requester = RemovalRequester::Conversation(context.conversation_ref());
    let wish = RemoveOptions { force, requester, ..RemoveOptions::default() };
    let removed = context.conversations.environments.remove_environment(&codebase, &environment, &wish).await?;
    if context.conversation.environment == Some(environment.id) {
        context.conversations.store.end_sessions(&context.conversation_ref()).await?;
        context.conversations.store.told_of_removal(context.conversation.id).await?;
    }
    let days = context.conversations.settings.trash_keep_days();
    Ok(done::describe_removed(environment.branch.as_str(), &removed, days).join("\n"))
}
