//! `/worktree orphans`

use grove_environments::problem::Problem;

use crate::commands::worktree::codebase;
use crate::turn_context::TurnContext;

pub async fn list_orphans(context: &TurnContext<'_>) -> Result<String, Problem> {
    let codebase = codebase(context).await?;
    let orphans = context.conversations.environments.list_orphan_worktrees(&codebase).await?;
    if orphans.is_empty() {
        return Ok("Every worktree is known.".to_owned());
    }
    let mut lines: Vec<String> = Vec::new();
    for orphan in orphans {
        lines.push(format!("- `{}` at {}", orphan.branch.as_deref().unwrap_or("no branch"), orphan.path.display()));
    }
    lines.push("They are left alone. `/worktree adopt PATH` takes one over.".to_owned());
    Ok(lines.join("\n"))
}
