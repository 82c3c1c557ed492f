//! `/worktree why [NAME]`

use grove_environments::create::decide::DecisionStep;
use grove_environments::problem::Problem;

use crate::commands::slash_command::WorktreeArgs;
use crate::commands::worktree::named_environment;
use crate::turn_context::TurnContext;

pub async fn explain_worktree(context: &TurnContext<'_>, args: &WorktreeArgs) -> Result<String, Problem> {
    let (_, environment) = named_environment(context, args).await?;
    let kept = context.conversations.store.last_resolution(environment.id).await?;
    let steps: Vec<DecisionStep> = kept.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    if steps.is_empty() {
        return Ok("Nothing was kept of how it was chosen.".to_owned());
    }
    let lines = steps.iter().map(|step| format!("- {}: {} ({})", step.candidate, step.outcome, step.reason));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
