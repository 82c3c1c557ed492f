//! A refused request, as `{"error": …}`.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use grove_environments::problem::Problem;
use grove_model::UserText;

use super::page::login_page;
use crate::api_json::ErrorJson;
use crate::words;

#[derive(Debug)]
pub struct HttpError {
    status: StatusCode,
    problem: Box<Problem>,
    /// The number of seconds after which a retry may work.
    retry_after: Option<u32>,
}

impl HttpError {
    pub fn new(status: StatusCode, problem: Problem) -> Self {
        Self { status, problem: Box::new(problem), retry_after: None }
    }

    /// Sets the time after which the client may retry.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Returns the error as a page for a browser.
    pub fn into_page(self) -> Response {
        login_page::respond_problem(self.status, self.problem.message.as_str(), self.problem.hint.as_str())
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let problem = *self.problem;
        // Some messages contain parts of the request.
        let redact = |text: &UserText| UserText::from(crate::log::redact_secrets(text.as_str()));
        let problem = Problem { message: redact(&problem.message), hint: redact(&problem.hint), ..problem };
        let retry_after = self.retry_after.map(|seconds| [(RETRY_AFTER, seconds.to_string())]);
        (self.status, retry_after, Json(ErrorJson::from(problem))).into_response()
    }
}

/// Errors are the client's to fix, unless they come from the store or the disk.
impl<E> From<E> for HttpError
where
    Problem: From<E>,
{
    fn from(error: E) -> Self {
        let problem = Problem::from(error);
        let status = match problem.code {
            "not_found" | "unknown_codebase" | "missing" => StatusCode::NOT_FOUND,
            "usage" | "bad_branch_name" | "bad_work" | "bad_name" | "bad_request" | "unknown_base" | "no_base"
            | "which_codebase" | "no_codebase" => StatusCode::BAD_REQUEST,
            "bad_signature" => StatusCode::UNAUTHORIZED,
            "store_busy" | "store_unreachable" | "store_failed" => StatusCode::SERVICE_UNAVAILABLE,
            "store_row" | "git_missing" => StatusCode::INTERNAL_SERVER_ERROR,
            "disk_full" => StatusCode::INSUFFICIENT_STORAGE,
            "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::CONFLICT,
        };
        Self::new(status, problem)
    }
}

pub async fn nothing_there() -> HttpError {
    words::unknown_route().into()
}

pub async fn wrong_method() -> HttpError {
    HttpError::new(StatusCode::METHOD_NOT_ALLOWED, words::wrong_method())
}
