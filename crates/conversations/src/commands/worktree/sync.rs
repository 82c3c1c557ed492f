//! `/worktree sync`

use grove_environments::problem::Problem;
use grove_environments::words::done;

use crate::commands::worktree::{Line, meant};
use crate::turn_context::Desk;

pub async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let (codebase, environment) = meant(desk, &mut line).await?;
    let synced = desk.talks.isolation.sync(&codebase, &environment).await?;
    Ok(done::synced(&synced))
}
