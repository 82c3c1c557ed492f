//! `/worktree sync`

use grove_environments::problem::Problem;
use grove_environments::words::done;

use crate::commands::worktree::{CommandLine, named_environment};
use crate::turn_context::TurnContext;

pub async fn sync_worktree(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let (codebase, environment) = named_environment(context, &mut line).await?;
    let synced = context.conversations.environments.sync_environment(&codebase, &environment).await?;
    Ok(done::describe_synced(&synced))
}
