//! `/worktree adopt PATH`

use std::path::Path;

use grove_environments::create::EnvironmentCreator;
use grove_environments::problem::Problem;

use crate::commands::worktree::{CommandLine, codebase};
use crate::turn_context::TurnContext;

pub async fn adopt_worktree(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let path = context.named_folder(Path::new(&line.take_one_word("PATH")?))?;
    let codebase = codebase(context).await?;
    let by = EnvironmentCreator {
        platform: Some(context.conversation.platform.clone()),
        user: context.message.user.clone(),
    };
    let outcome = context.conversations.environments.adopt_worktree(&codebase, &path, None, by).await?;
    Ok(format!("Adopted `{}` at {}.", outcome.environment.branch, outcome.environment.path.display()))
}
