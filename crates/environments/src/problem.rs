//! The text of a refusal or an error: one sentence, a code for scripts, and what to do.

use grove_model::UserText;

/// A refusal or an error as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: &'static str,
    pub message: UserText,
    pub hint: UserText,
    pub reasons: Vec<ProblemReason>,
    /// Commands to choose from, where there are several. `hint` names them, too.
    pub options: Vec<ProblemOption>,
}

/// One of several reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemReason {
    pub code: &'static str,
    pub message: UserText,
    pub hint: UserText,
}

/// A command that would solve a problem, and the number of environments that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemOption {
    pub command: UserText,
    pub count: usize,
}

impl Problem {
    pub fn new(code: &'static str, message: impl Into<UserText>, hint: impl Into<UserText>) -> Self {
        Self { code, message: message.into(), hint: hint.into(), reasons: Vec::new(), options: Vec::new() }
    }

    pub fn with_reasons(self, reasons: Vec<ProblemReason>) -> Self {
        Self { reasons, ..self }
    }

    /// Replaces the message, and keeps the code and what to do.
    pub fn with_message(self, message: impl Into<UserText>) -> Self {
        Self { message: message.into(), ..self }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message.as_str())
    }
}

impl std::error::Error for Problem {}

impl ProblemReason {
    pub fn new(code: &'static str, message: impl Into<UserText>, hint: impl Into<UserText>) -> Self {
        Self { code, message: message.into(), hint: hint.into() }
    }
}

/// Returns `text` with a capital at its start and a full stop at its end.
pub fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let capital: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
    if capital.ends_with(['.', '!', '?']) { capital } else { format!("{capital}.") }
}
