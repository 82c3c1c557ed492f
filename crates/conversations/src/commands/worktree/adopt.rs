//! `/worktree adopt PATH`

use std::path::Path;

use grove_environments::create::CreatedBy;
use grove_environments::problem::Problem;

use crate::commands::worktree::{Line, codebase};
use crate::turn_context::Desk;

pub async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let path = desk.named_folder(Path::new(&line.one("PATH")?))?;
    let codebase = codebase(desk).await?;
    let by = CreatedBy { platform: Some(desk.conversation.platform.clone()), user: desk.message.user.clone() };
    let outcome = desk.talks.isolation.adopt(&codebase, &path, None, by).await?;
    Ok(format!("Adopted `{}` at {}.", outcome.environment.branch, outcome.environment.path.display()))
}
