//! `/help`

use crate::commands::{CommandEntry, SLASH_COMMANDS};

pub fn help_text() -> String {
    format!("Anything that is not a command goes to the agent.\n\n{}", list_commands("/", SLASH_COMMANDS))
}

/// Lists the commands, one per line.
pub fn list_commands(prefix: &str, commands: &[CommandEntry]) -> String {
    let line = |CommandEntry { name, usage, about }: &CommandEntry| {
        let space = if usage.is_empty() { "" } else { " " };
        format!("- `{prefix}{name}{space}{usage}`: {about}")
    };
    commands.iter().map(line).collect::<Vec<_>>().join("\n")
}
