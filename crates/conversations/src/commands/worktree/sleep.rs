//! `/worktree hibernate [NAME]` and `/worktree wake [NAME]`

use grove_environments::problem::Problem;
use grove_environments::words::done;

use crate::commands::worktree::{Line, meant};
use crate::turn_context::Desk;

pub async fn hibernate(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let (codebase, environment) = meant(desk, &mut line).await?;
    let slept = desk.talks.isolation.hibernate(&codebase, &environment).await?;
    Ok(done::hibernated(&slept).join("\n"))
}

pub async fn wake(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let (codebase, environment) = meant(desk, &mut line).await?;
    let woken = desk.talks.isolation.wake(&codebase, &environment).await?;
    let awake = format!("`{}` is awake.", woken.environment.branch);
    Ok(std::iter::once(awake).chain(done::folders_gone(&woken.gone)).collect::<Vec<_>>().join("\n"))
}
