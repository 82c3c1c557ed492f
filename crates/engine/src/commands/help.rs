//! `/help`

use super::COMMANDS;

pub fn run() -> String {
    let lines = COMMANDS.iter().map(|entry| {
        let usage = if entry.usage.is_empty() { String::new() } else { format!(" {}", entry.usage) };
        format!("- `/{}{usage}`: {}", entry.name, entry.about)
    });
    format!("Anything that is not a command goes to the agent.\n\n{}", lines.collect::<Vec<_>>().join("\n"))
}
