//! `/worktree sync`

use grove_environments::problem::Problem;
use grove_environments::words::done;

use crate::commands::slash_command::WorktreeArgs;
use crate::commands::worktree::named_environment;
use crate::turn_context::TurnContext;

pub async fn sync_worktree(context: &TurnContext<'_>, args: &WorktreeArgs) -> Result<String, Problem> {
    let (codebase, environment) = named_environment(context, args).await?;
    let synced = context.conversations.environments.sync_environment(&codebase, &environment).await?;
    Ok(done::describe_synced(&synced).for_chat())
}
