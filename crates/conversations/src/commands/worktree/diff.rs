//! `/worktree diff`

use grove_environments::problem::Problem;

use crate::commands::worktree::{Line, meant};
use crate::turn_context::Desk;

pub async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let (codebase, environment) = meant(desk, &mut line).await?;
    let diff = desk.talks.isolation.diff(&codebase, &environment).await?;
    if diff.patch.is_empty() && diff.untracked == 0 {
        return Ok(format!("Nothing was changed in `{}`.", environment.branch));
    }
    let untracked = match diff.untracked {
        0 => String::new(),
        1 => "\nOne file is not known to git.".to_owned(),
        many => format!("\n{many} files are not known to git."),
    };
    let left_out = if diff.cut { "\n(The rest is left out.)" } else { "" };
    // Longer than any fence inside.
    let fence = if diff.patch.contains("```") { "``````" } else { "```" };
    Ok(format!("{fence}diff\n{}\n{fence}{left_out}{untracked}", diff.patch.trim_end()))
}
