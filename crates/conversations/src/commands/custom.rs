//! `/commands`; `/run` is for the agent, and is in `talk/custom.rs`.

use grove_environments::problem::{Problem, sentence};

use crate::commands::codebase_of;
use crate::custom::{Catalogue, Command, CustomError, FOLDERS};
use crate::turn_context::Desk;

/// How much of a description is shown.
const LONGEST: usize = 200;

pub async fn list(desk: &Desk<'_>) -> Result<String, Problem> {
    let codebase = codebase_of(desk).await?;
    let catalogue = Catalogue::of_codebase(&desk.talks.isolation, &codebase, None).await?;
    let commands = catalogue.read().await.map_err(CustomError::from)?;
    if commands.is_empty() {
        let [first, others @ ..] = FOLDERS.map(|folder| format!("`{folder}`"));
        return Ok(format!(
            "No custom commands. A Markdown file in {first} (or {}) is one, once it is committed to `{}`.",
            others.join(", "),
            catalogue.base()
        ));
    }
    let mut lines: Vec<String> = commands.iter().map(|(name, command)| line(name, command.as_ref())).collect();
    if catalogue.left_out > 0 {
        lines.push(format!("{} more are left out: there are too many.", catalogue.left_out));
    }
    Ok(lines.join("\n"))
}

fn line(name: &str, command: Result<&Command, &CustomError>) -> String {
    let plain = |text: &str| text.replace('`', "'");
    let short = |text: &str| text.chars().take(LONGEST).collect::<String>();
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
