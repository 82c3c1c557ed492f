//! A refused request, as `{"error": …}`.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use grove_environments::problem::Problem;
use serde_json::json;

use super::page::login_page;

#[derive(Debug)]
pub struct HttpError {
    status: StatusCode,
    problem: Problem,
    /// The number of seconds after which a retry may work.
    retry_after: Option<u32>,
}

impl HttpError {
    pub fn new(status: StatusCode, problem: Problem) -> Self {
        Self { status, problem, retry_after: None }
    }

    /// Sets the time after which the client may retry.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Returns the error as a page for a browser.
    pub fn into_page(self) -> Response {
        login_page::respond_problem(self.status, &self.problem.message, &self.problem.hint)
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let Problem { code, message, hint, reasons } = self.problem;
        // Some messages contain parts of the request.
        let (message, hint) = (crate::log::redact_secrets(&message), crate::log::redact_secrets(&hint));
        let retry_after = self.retry_after.map(|seconds| [(RETRY_AFTER, seconds.to_string())]);
        (self.status, retry_after, Json(json!({ "error": Problem { code, message, hint, reasons } }))).into_response()
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
            "store_busy" | "store_unreachable" | "store_failed" => StatusCode::SERVICE_UNAVAILABLE,
            "store_row" | "git_missing" => StatusCode::INTERNAL_SERVER_ERROR,
            "disk_full" => StatusCode::INSUFFICIENT_STORAGE,
            "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::CONFLICT,
        };
        Self::new(status, problem)
    }
}

pub fn bad_query(rejection: &QueryRejection) -> HttpError {
    let message = format!("The address cannot be read: {}.", rejection.body_text().trim_end_matches('.'));
    HttpError::new(StatusCode::BAD_REQUEST, Problem::new("bad_request", message, "See /api/openapi.json."))
}

pub async fn nothing_there() -> HttpError {
    let problem = Problem::new("not_found", "There is nothing at this address.", "See /api/openapi.json.");
    HttpError::new(StatusCode::NOT_FOUND, problem)
}

pub async fn wrong_method() -> HttpError {
    let problem = Problem::new("bad_request", "This address does not take that method.", "See /api/openapi.json.");
    HttpError::new(StatusCode::METHOD_NOT_ALLOWED, problem)
}
