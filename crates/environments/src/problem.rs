//! The text of a refusal or an error: one sentence, a code for scripts, and what to do.

use serde::Serialize;

/// A refusal or an error as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub code: &'static str,
    pub message: String,
    pub hint: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<ProblemReason>,
}

/// One of several reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProblemReason {
    pub code: &'static str,
    pub message: String,
    pub hint: String,
}

impl Problem {
    pub fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into(), reasons: Vec::new() }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// Returns `text` with a capital at its start and a full stop at its end.
pub fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let capital: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
    if capital.ends_with(['.', '!', '?']) { capital } else { format!("{capital}.") }
}
