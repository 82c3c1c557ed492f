//! `/worktree diff`

use grove_environments::problem::Problem;

use crate::commands::worktree::{CommandLine, named_environment};
use crate::turn_context::TurnContext;

pub async fn show_diff(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let (codebase, environment) = named_environment(context, &mut line).await?;
    let diff = context.conversations.environments.diff_environment(&codebase, &environment).await?;
    if diff.patch.is_empty() && diff.untracked == 0 {
        return Ok(format!("Nothing was changed in `{}`.", environment.branch));
    }
    let untracked = match diff.untracked {
        0 => String::new(),
        1 => "\n1 untracked file.".to_owned(),
        many => format!("\n{many} untracked files."),
    };
    let left_out = if diff.cut { "\n(The rest is left out.)" } else { "" };
    // Longer than any fence in the patch.
    let fence = if diff.patch.contains("```") { "``````" } else { "```" };
    Ok(format!("{fence}diff\n{}\n{fence}{left_out}{untracked}", diff.patch.trim_end()))
}
