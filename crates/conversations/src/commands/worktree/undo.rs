//! `/worktree undo [NAME]`

use grove_environments::problem::Problem;
use grove_environments::remove::RestoredEnvironment;
use grove_environments::remove::trash::find_latest;
use grove_environments::words::done;

use crate::commands::slash_command::UndoArgs;
use crate::commands::worktree::codebase;
use crate::replies;
use crate::turn_context::TurnContext;

pub async fn undo_removal(
    context: &TurnContext<'_>,
    UndoArgs { removed_worktree }: &UndoArgs,
) -> Result<String, Problem> {
    let codebase = codebase(context).await?;
    let environments = &context.conversations.environments;
    environments.reconcile_codebase(&codebase).await?;
    let trash = environments.list_trash(&codebase).await?;
    let environment = find_latest(removed_worktree.as_deref(), &trash)?.environment.clone();
    let RestoredEnvironment { environment, gone } = environments.undo_removal(&codebase, &environment).await?;
    let back = format!("`{}` is back at {}.", environment.branch, environment.path.display());
    Ok(replies::join_lines(std::iter::once(back.into()).chain(done::folders_gone(&gone))))
}
