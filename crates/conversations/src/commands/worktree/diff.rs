//! `/worktree diff [NAME] [--stat|--name-only]`

use grove_environments::problem::Problem;
use grove_git::diff::{DiffFormat, DiffOptions};

use crate::commands::slash_command::DiffArgs;
use crate::commands::worktree::named_environment;
use crate::turn_context::TurnContext;

pub async fn show_diff(context: &TurnContext<'_>, args: &DiffArgs) -> Result<String, Problem> {
    let format = match (args.stat, args.name_only) {
        (_, true) => DiffFormat::Names,
        (true, false) => DiffFormat::Stat,
        (false, false) => DiffFormat::Patch,
    };
    let (codebase, environment) = named_environment(context, &args.named).await?;
    let options = DiffOptions { format, colour: false };
    let diff = context.conversations.environments.diff_excerpt(&codebase, &environment, options).await?;
    let nested = match diff.nested_repositories {
        0 => String::new(),
        1 => "\n(A repository inside is left out.)".to_owned(),
        many => format!("\n({many} repositories inside are left out.)"),
    };
    if diff.text.is_empty() {
        return Ok(format!("Nothing was changed in `{}`.{nested}", environment.branch));
    }
    let left_out = if diff.cut { "\n(The rest is left out.)" } else { "" };
    let text = diff.text.replace('\0', "\n");
    // Longer than any fence in the patch.
    let fence = if text.contains("```") { "``````" } else { "```" };
    let language = if format == DiffFormat::Patch { "diff" } else { "" };
    Ok(format!("{fence}{language}\n{}\n{fence}{left_out}{nested}", text.trim_end()))
}
