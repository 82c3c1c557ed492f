//! `/worktree remove [NAME] [--force]`

use grove_environments::problem::Problem;
use grove_environments::remove::{RemovalRequester, RemoveOptions};
use grove_environments::words::done;

use crate::commands::slash_command::RemoveArgs;
use crate::commands::worktree::{end_session, named_environment};
use crate::replies;
use crate::turn_context::TurnContext;

pub async fn remove_worktree(
    context: &TurnContext<'_>,
    RemoveArgs { named, force }: &RemoveArgs,
) -> Result<String, Problem> {
    let (codebase, environment) = named_environment(context, named).await?;
    let requester = RemovalRequester::Conversation(context.conversation_ref());
    let wish = RemoveOptions { force: *force, requester, ..RemoveOptions::default() };
    let removed = context.conversations.environments.remove_environment(&codebase, &environment, &wish).await?;
    end_session(context, &environment).await?;
    let days = context.conversations.settings.current().trash_keep_days();
    Ok(replies::join_lines(done::describe_removed(environment.branch.as_str(), &removed, days)))
}
