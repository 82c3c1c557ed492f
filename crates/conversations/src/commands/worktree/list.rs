//! `/worktree list`

use grove_environments::problem::Problem;

use crate::commands::worktree::codebase;
use crate::turn_context::TurnContext;

pub async fn list_worktrees(context: &TurnContext<'_>) -> Result<String, Problem> {
    let codebase = codebase(context).await?;
    let views = context.conversations.environments.environment_views(&codebase, false).await?;
    if views.is_empty() {
        return Ok("No worktrees. The next message makes one, or `/worktree create NAME`.".to_owned());
    }
    let current = context.conversation.environment.map(|id| id.to_string());
    let lines = views.iter().map(|view| {
        let mark = if current.as_deref() == Some(&view.id) { " ← active" } else { "" };
        let count =
            |sign: char, n: Option<u64>| n.filter(|n| *n > 0).map(|n| format!(" {sign}{n}")).unwrap_or_default();
        let (ahead, behind) = (count('+', view.ahead), count('-', view.behind));
        format!(
            "- `{}` ({} {}): {}{ahead}{behind}{mark}",
            view.branch,
            view.workflow_type,
            view.workflow_id,
            view.state.as_str()
        )
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
