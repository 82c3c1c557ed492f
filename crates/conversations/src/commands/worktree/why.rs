//! `/worktree why [NAME]`

use grove_environments::create::decide::Step;
use grove_environments::problem::Problem;

use crate::commands::worktree::{Line, meant};
use crate::turn_context::Desk;

pub async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let (_, environment) = meant(desk, &mut line).await?;
    let kept = desk.talks.store.resolution(environment.id).await?;
    let steps: Vec<Step> = kept.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    if steps.is_empty() {
        return Ok("Nothing was kept of how it was chosen.".to_owned());
    }
    let lines = steps.iter().map(|step| format!("- {}: {} ({})", step.candidate, step.outcome, step.reason));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
