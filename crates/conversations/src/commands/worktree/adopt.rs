//! `/worktree adopt PATH`

use std::path::Path;

use grove_environments::create::EnvironmentCreator;
use grove_environments::problem::Problem;

use crate::commands::slash_command::AdoptArgs;
use crate::commands::worktree::codebase;
use crate::turn_context::TurnContext;

pub async fn adopt_worktree(context: &TurnContext<'_>, AdoptArgs { path }: &AdoptArgs) -> Result<String, Problem> {
    let path = context.named_folder(Path::new(path))?;
    let codebase = codebase(context).await?;
    let by = EnvironmentCreator {
        platform: Some(context.conversation.platform.clone()),
        user: context.message.user.clone(),
    };
    let outcome = context.conversations.environments.adopt_worktree(&codebase, &path, None, by).await?;
    Ok(format!("Adopted `{}` at {}.", outcome.environment.branch, outcome.environment.path.display()))
}
