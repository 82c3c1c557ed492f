//! `/worktree sync`

use super::{Line, meant};
use crate::Problem;
use crate::talk::Desk;
use crate::words::done;

pub async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let (codebase, environment) = meant(desk, &mut line).await?;
    let synced = desk.talks.isolation.sync(&codebase, &environment).await?;
    Ok(done::synced(&synced))
}
