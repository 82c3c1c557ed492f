//! `/worktree hibernate [NAME]` and `/worktree wake [NAME]`

use super::{Line, meant};
use crate::Problem;
use crate::talk::Desk;
use crate::words::done;

pub async fn hibernate(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let (codebase, environment) = meant(desk, &mut line).await?;
    desk.talks.isolation.hibernate(&codebase, &environment).await?;
    Ok(done::hibernated(environment.branch.as_str()))
}

pub async fn wake(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let (codebase, environment) = meant(desk, &mut line).await?;
    let environment = desk.talks.isolation.wake(&codebase, &environment).await?;
    Ok(format!("`{}` is awake.", environment.branch))
}
