//! `/worktree adopt PATH`

use std::path::Path;

use super::{Line, codebase};
use crate::Problem;
use crate::isolation::CreatedBy;
use crate::talk::Desk;

pub async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let path = desk.named_folder(Path::new(&line.one("PATH")?))?;
    let codebase = codebase(desk).await?;
    let by = CreatedBy { platform: Some(desk.conversation.platform.clone()), user: desk.message.user.clone() };
    let outcome = desk.talks.isolation.adopt(&codebase, &path, None, by).await?;
    Ok(format!("Adopted `{}` at {}.", outcome.environment.branch, outcome.environment.path.display()))
}
