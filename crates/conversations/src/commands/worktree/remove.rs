//! `/worktree remove [NAME] [--force]`

use grove_environments::problem::Problem;
use grove_environments::remove::{RemovalRequester, RemoveOptions};
use grove_environments::words::done;

use crate::commands::worktree::{CommandLine, named_environment};
use crate::turn_context::TurnContext;

pub async fn remove_worktree(desk: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let force = line.take_flag("--force") || line.take_flag("-f");
    let (codebase, environment) = named_environment(desk, &mut line).await?;
    let asker = RemovalRequester::Conversation(desk.conversation_ref());
    let wish = RemoveOptions { force, asker, ..RemoveOptions::default() };
    let removed = desk.talks.isolation.remove_environment(&codebase, &environment, &wish).await?;
    if desk.conversation.environment == Some(environment.id) {
        desk.talks.store.end_sessions(&desk.conversation_ref()).await?;
        desk.talks.store.told_of_removal(desk.conversation.id).await?;
    }
    let days = desk.talks.settings.trash_keep_days();
    Ok(done::describe_removed(environment.branch.as_str(), &removed, days).join("\n"))
}
