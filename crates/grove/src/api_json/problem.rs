//! Errors and refusals.

use grove_environments::problem::{Problem, ProblemReason};
use serde::Serialize;
use utoipa::ToSchema;

/// The answer to a request that was not served.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub struct ErrorJson {
    error: ProblemJson,
}

/// An error or a refusal: a code for scripts, one sentence, and what to do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemJson {
    code: &'static str,
    message: String,
    hint: String,
    /// All reasons, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<ReasonJson>,
}

/// One of several reasons.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reason)]
pub struct ReasonJson {
    code: &'static str,
    message: String,
    hint: String,
}

impl From<Problem> for ErrorJson {
    fn from(problem: Problem) -> Self {
        Self { error: problem.into() }
    }
}

impl From<Problem> for ProblemJson {
    fn from(Problem { code, message, hint, reasons, options: _ }: Problem) -> Self {
        let (message, hint) = (message.to_string(), hint.to_string());
        Self { code, message, hint, reasons: reasons.into_iter().map(ReasonJson::from).collect() }
    }
}

impl From<ProblemReason> for ReasonJson {
    fn from(ProblemReason { code, message, hint }: ProblemReason) -> Self {
        Self { code, message: message.to_string(), hint: hint.to_string() }
    }
}
