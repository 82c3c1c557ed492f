//! `/worktree link KIND-ID|BRANCH`

use grove_environments::error::EnvironmentError;
use grove_environments::problem::Problem;

use crate::commands::slash_command::LinkArgs;
use crate::commands::worktree::codebase;
use crate::turn_context::TurnContext;
use crate::words;

pub async fn link_worktree(context: &TurnContext<'_>, LinkArgs { worktree }: &LinkArgs) -> Result<String, Problem> {
    let codebase = codebase(context).await?;
    let environment = match context.conversations.environments.find_environment(&codebase, worktree.as_str()).await {
        Ok(environment) => environment,
        Err(EnvironmentError::NoSuch(_)) => {
            return Err(words::no_worktree_to_link(worktree.as_str()));
        }
        Err(error) => return Err(error.into()),
    };
    if !context.conversations.store.bind_conversation(&context.conversation_ref(), codebase.id, environment.id).await? {
        return Err(EnvironmentError::InTheMaking { work: environment.work.to_string() }.into());
    }
    Ok(format!("Linked to worktree `{}`", environment.branch))
}
