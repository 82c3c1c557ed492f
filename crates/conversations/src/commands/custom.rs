//! `/commands`; `/run` is for the agent, and is in `turn/custom.rs`.

use grove_environments::problem::{Problem, sentence};

use crate::commands::codebase_of;
use crate::custom::{COMMAND_FOLDERS, CustomCommand, CustomCommandCatalog, CustomCommandError};
use crate::turn_context::TurnContext;

/// The number of characters of a description that are shown.
const MAX_DESCRIPTION_LENGTH: usize = 200;

pub async fn list_custom_commands(context: &TurnContext<'_>) -> Result<String, Problem> {
    let codebase = codebase_of(context).await?;
    let catalogue = CustomCommandCatalog::of_codebase(&context.conversations.environments, &codebase, None).await?;
    let commands = catalogue.read_commands().await.map_err(CustomCommandError::from)?;
    if commands.is_empty() {
        let [first, others @ ..] = COMMAND_FOLDERS.map(|folder| format!("`{folder}`"));
        return Ok(format!(
            "No custom commands. A Markdown file in {first} (or {}) is one, once it is committed to `{}`.",
            others.join(", "),
            catalogue.base_name()
        ));
    }
    let mut lines: Vec<String> =
        commands.iter().map(|(name, command)| command_summary(name, command.as_ref())).collect();
    if catalogue.left_out > 0 {
        lines.push(format!("{} more are left out: there are too many.", catalogue.left_out));
    }
    Ok(lines.join("\n"))
}

fn command_summary(name: &str, command: Result<&CustomCommand, &CustomCommandError>) -> String {
    let plain = |text: &str| text.replace('`', "'");
    let short = |text: &str| text.chars().take(MAX_DESCRIPTION_LENGTH).collect::<String>();
    let name = plain(name);
    match command {
        Ok(command) => {
            let hint = command.hint.as_deref().map(|hint| format!(" {}", plain(hint))).unwrap_or_default();
            let about = command.description.as_deref().map(|about| format!(": {}", short(about))).unwrap_or_default();
            format!("- `/run {name}{hint}`{about}")
        }
        Err(error) => format!("- `/run {name}` does not work: {}", sentence(&error.to_string())),
    }
}
