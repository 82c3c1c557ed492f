//! Describes the object of a tool call in a few words.

use serde_json::Value;

use crate::transcript::shorten_line;

/// The parameters of known tools that describe their object, the most telling first.
const SUMMARY_KEYS: [&str; 11] = [
    "file_path",
    "filePath",
    "notebook_path",
    "path",
    "command",
    "cmd",
    "pattern",
    "url",
    "query",
    "description",
    "prompt",
];

/// Returns the most telling parameter, or an empty string if there is none.
pub(super) fn main_parameter(input: &Value) -> String {
    let told = SUMMARY_KEYS.iter().find_map(|key| input.get(key));
    match told {
        Some(Value::String(text)) => shorten_line(text),
        Some(Value::Array(words)) => {
            shorten_line(&words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_most_telling_parameter_is_shown_in_one_line() {
        assert_eq!(main_parameter(&json!({ "content": "x", "file_path": "src/main.rs" })), "src/main.rs");
        assert_eq!(main_parameter(&json!({ "command": ["bash", "-lc", "ls\n-l"] })), "bash -lc ls -l");
        assert_eq!(main_parameter(&json!({ "command": "y".repeat(500) })).chars().count(), 121);
        assert_eq!(main_parameter(&json!({ "other": 1 })), "");
    }
}
