//! `/help`

use crate::commands::{COMMANDS, Entry};

pub fn run() -> String {
    format!("Anything that is not a command goes to the agent.\n\n{}", listed("/", COMMANDS))
}

/// A line for each command.
pub fn listed(prefix: &str, commands: &[Entry]) -> String {
    let line = |Entry { name, usage, about }: &Entry| {
        let space = if usage.is_empty() { "" } else { " " };
        format!("- `{prefix}{name}{space}{usage}`: {about}")
    };
    commands.iter().map(line).collect::<Vec<_>>().join("\n")
}
