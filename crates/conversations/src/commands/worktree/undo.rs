//! `/worktree undo [NAME]`

use grove_environments::problem::Problem;
use grove_environments::remove::Restored;
use grove_environments::remove::trash::find_latest;
use grove_environments::words::done;

use crate::commands::worktree::{Line, codebase};
use crate::turn_context::Desk;

pub async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let name = line.at_most_one()?;
    let codebase = codebase(desk).await?;
    let isolation = &desk.talks.isolation;
    isolation.reconcile(&codebase).await?;
    let trash = isolation.trash(&codebase).await?;
    let environment = find_latest(name.as_deref(), &trash)?.environment.clone();
    let Restored { environment, gone } = isolation.undo(&codebase, &environment).await?;
    let back = format!("`{}` is back at {}.", environment.branch, environment.path.display());
    Ok(std::iter::once(back).chain(done::folders_gone(&gone)).collect::<Vec<_>>().join("\n"))
}
