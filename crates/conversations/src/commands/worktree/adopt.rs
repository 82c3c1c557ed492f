//! `/worktree adopt PATH`

use std::path::Path;

use grove_environments::create::EnvironmentCreator;
use grove_environments::problem::Problem;

use crate::commands::worktree::{CommandLine, codebase};
use crate::turn_context::TurnContext;

pub async fn adopt_worktree(desk: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let path = desk.named_folder(Path::new(&line.take_one_word("PATH")?))?;
    let codebase = codebase(desk).await?;
    let by = EnvironmentCreator { platform: Some(desk.conversation.platform.clone()), user: desk.message.user.clone() };
    let outcome = desk.talks.isolation.adopt_worktree(&codebase, &path, None, by).await?;
    Ok(format!("Adopted `{}` at {}.", outcome.environment.branch, outcome.environment.path.display()))
}
