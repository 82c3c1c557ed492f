//! The refusals of custom commands.

use grove_environments::problem::{Problem, sentence};

use crate::custom::CustomCommandError;

impl From<CustomCommandError> for Problem {
    fn from(error: CustomCommandError) -> Self {
        let message = sentence(&error.to_string());
        let on_base = "Correct the file on the base branch.";
        match error {
            CustomCommandError::Unknown { near: Some(near), .. } => {
                let hint = format!("Did you mean `/run {near}`? `/commands` lists them.");
                Problem::new("unknown_command", message, hint)
            }
            CustomCommandError::Unknown { near: None, .. } => {
                Problem::new("unknown_command", message, "`/commands` lists them.")
            }
            CustomCommandError::TooLarge { .. }
            | CustomCommandError::NotText { .. }
            | CustomCommandError::Empty { .. }
            | CustomCommandError::BadValue { .. }
            | CustomCommandError::BadList { .. } => Problem::new("bad_command", message, on_base),
            CustomCommandError::TooLong { .. } => Problem::new("too_long", message, "Give it less."),
            CustomCommandError::OpenQuote { .. } => Problem::new("usage", message, "Close it, or leave it away."),
            CustomCommandError::ToolsNotKept { .. } => Problem::new(
                "tools_not_kept",
                message,
                "Choose an agent of kind `claude` with `/agent NAME`, or take the list out of the file.",
            ),
            CustomCommandError::Git(error) => error.into(),
        }
    }
}
