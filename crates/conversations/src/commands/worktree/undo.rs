//! `/worktree undo [NAME]`

use grove_environments::problem::Problem;
use grove_environments::remove::RestoredEnvironment;
use grove_environments::remove::trash::find_latest;
use grove_environments::words::done;

use crate::commands::worktree::{CommandLine, codebase};
use crate::turn_context::TurnContext;

pub async fn undo_removal(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let name = line.at_most_one()?;
    let codebase = codebase(context).await?;
    let environments = &context.conversations.environments;
    environments.reconcile_codebase(&codebase).await?;
    let trash = environments.list_trash(&codebase).await?;
    let environment = find_latest(name.as_deref(), &trash)?.environment.clone();
    let RestoredEnvironment { environment, gone } = environments.undo_removal(&codebase, &environment).await?;
    let back = format!("`{}` is back at {}.", environment.branch, environment.path.display());
    Ok(std::iter::once(back).chain(done::folders_gone(&gone)).collect::<Vec<_>>().join("\n"))
}
