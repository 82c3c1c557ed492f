//! What stands in the way of a custom command.

use grove_environments::problem::{Problem, sentence};

use crate::custom::CustomError;

impl From<CustomError> for Problem {
    fn from(error: CustomError) -> Self {
        let message = sentence(&error.to_string());
        let on_base = "Correct the file on the base branch.";
        match error {
            CustomError::Unknown { near: Some(near), .. } => {
                let hint = format!("Did you mean `/run {near}`? `/commands` lists them.");
                Problem::new("unknown_command", message, hint)
            }
            CustomError::Unknown { near: None, .. } => {
                Problem::new("unknown_command", message, "`/commands` lists them.")
            }
            CustomError::TooLarge { .. }
            | CustomError::NotText { .. }
            | CustomError::Empty { .. }
            | CustomError::BadValue { .. }
            | CustomError::BadList { .. } => Problem::new("bad_command", message, on_base),
            CustomError::TooLong { .. } => Problem::new("too_long", message, "Give it less."),
            CustomError::OpenQuote { .. } => Problem::new("usage", message, "Close it, or leave it away."),
            CustomError::ToolsNotKept { .. } => Problem::new(
                "tools_not_kept",
                message,
                "Choose an agent of kind `claude` with `/agent NAME`, or take the list out of the file.",
            ),
            CustomError::Git(error) => error.into(),
        }
    }
}
