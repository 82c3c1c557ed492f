//! `/worktree list`

use grove_environments::problem::Problem;
use grove_environments::words::state::{describe_changes, describe_distance};

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
        let distance = describe_distance(view.ahead, view.behind);
        let changes = Some(describe_changes(view)).filter(|changes| !changes.is_empty());
        let changes = changes.map(|changes| format!(" ({changes})")).unwrap_or_default();
        let title = view.title.as_ref().map(|title| format!(" · {title}")).unwrap_or_default();
        format!(
            "- `{}` ({} {}): {}{changes}{distance}{title}{mark}",
            view.branch,
            view.workflow_type,
            view.workflow_id,
            view.state.as_str()
        )
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
