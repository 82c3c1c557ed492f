//! What a tool is used on, in a few words.

use serde_json::Value;

use crate::transcript::shortened;

/// Where the parameters of known tools say what it is about, the most telling first.
const TELLING: [&str; 11] = [
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

/// The parameter that tells most; without one, nothing.
pub(super) fn about(input: &Value) -> String {
    let told = TELLING.iter().find_map(|key| input.get(key));
    match told {
        Some(Value::String(text)) => shortened(text),
        Some(Value::Array(words)) => shortened(&words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_most_telling_parameter_is_shown_in_one_line() {
        assert_eq!(about(&json!({ "content": "x", "file_path": "src/main.rs" })), "src/main.rs");
        assert_eq!(about(&json!({ "command": ["bash", "-lc", "ls\n-l"] })), "bash -lc ls -l");
        assert_eq!(about(&json!({ "command": "y".repeat(500) })).chars().count(), 121);
        assert_eq!(about(&json!({ "other": 1 })), "");
    }
}
