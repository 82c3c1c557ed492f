//! `/worktree link KIND-ID|BRANCH`

use grove_environments::error::EnvironmentError;
use grove_environments::problem::Problem;
use grove_model::BranchName;

use crate::commands::worktree::{CommandLine, codebase};
use crate::turn_context::TurnContext;

const LINK_EXAMPLES: &str = "Write `/worktree link issue-42`, `/worktree link pr-7` or `/worktree link feature/auth`.";

pub async fn link_worktree(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let wrong = |message: &str| Problem::new("usage", message, LINK_EXAMPLES);
    let name = line.at_most_one().ok().flatten().ok_or_else(|| wrong("One worktree has to be named."))?;
    BranchName::parse(&name).map_err(|_| wrong("That names neither a work nor a branch."))?;
    let codebase = codebase(context).await?;
    let environment = match context.conversations.environments.find_environment(&codebase, &name).await {
        Ok(environment) => environment,
        Err(EnvironmentError::NoSuch(_)) => {
            let hint = "`/worktree list` shows them.";
            return Err(Problem::new("not_found", format!("No worktree found for {name}"), hint));
        }
        Err(error) => return Err(error.into()),
    };
    if !context.conversations.store.bind_conversation(&context.conversation_ref(), codebase.id, environment.id).await? {
        return Err(EnvironmentError::InTheMaking { work: environment.work.to_string() }.into());
    }
    Ok(format!("Linked to worktree `{}`", environment.branch))
}
