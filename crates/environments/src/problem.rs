//! What a person reads when something is refused or fails: one sentence, a code for scripts, what to do.

use serde::Serialize;

/// Something was refused or failed, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub code: &'static str,
    pub message: String,
    pub hint: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

/// One of several reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
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

/// `text` with a capital at its start and a full stop at its end.
pub fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let capital: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
    if capital.ends_with(['.', '!', '?']) { capital } else { format!("{capital}.") }
}
