//! Errors of GitHub, grouped by how to handle them.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::retry::RetryAdvice;

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// A rate limit was reached: nothing was done, and no request may be sent before the time is over.
    #[error("GitHub asks us to wait {} seconds", .wait.as_secs())]
    Limited { wait: Duration },
    /// The request may or may not have been carried out.
    #[error("GitHub does not answer: {what}")]
    Unavailable { what: String, wait: Option<Duration> },
    #[error("GitHub does not take our credentials: {0}")]
    BadCredentials(String),
    #[error("GitHub does not allow us that: {0}")]
    Forbidden(String),
    #[error("GitHub does not know it, or does not show it to us: {0}")]
    NotFound(String),
    #[error("GitHub refuses ({status}): {what}")]
    Refused { status: u16, what: String },
    /// The request was carried out if GitHub reported success: the response cannot be parsed.
    #[error("GitHub's answer makes no sense: {0}")]
    Nonsense(String),
}

/// The time to wait for a rate limit if GitHub names none.
const DEFAULT_RATE_LIMIT_WAIT: Duration = Duration::from_secs(60);

/// The maximum time to wait, since no limit lasts longer, whatever the clocks say.
const MAX_RATE_LIMIT_WAIT: Duration = Duration::from_secs(2 * 60 * 60);

impl ApiError {
    pub fn retry_advice(&self) -> RetryAdvice {
        match self {
            ApiError::Limited { wait } | ApiError::Unavailable { wait: Some(wait), .. } => RetryAdvice::After(*wait),
            // A response that cannot be parsed is more often the page of a proxy than GitHub's own.
            ApiError::Unavailable { wait: None, .. } | ApiError::BadCredentials(_) | ApiError::Nonsense(_) => {
                RetryAdvice::Later
            }
            ApiError::Forbidden(_) | ApiError::NotFound(_) | ApiError::Refused { .. } => RetryAdvice::Never,
        }
    }

    /// Tells whether every other request would fail too: a limit is reached, or GitHub does not know us.
    pub fn concerns_all(&self) -> bool {
        matches!(self.retry_advice(), RetryAdvice::After(_)) || matches!(self, ApiError::BadCredentials(_))
    }

    /// Tells whether the request may have been carried out in spite of the error.
    pub fn may_have_happened(&self) -> bool {
        matches!(self, ApiError::Unavailable { .. } | ApiError::Nonsense(_))
    }

    /// Converts the error that the connection could not be made, or broke.
    pub(crate) fn from_broken_connection(error: &dyn std::error::Error) -> Self {
        let (mut what, mut cause) = (error.to_string(), error.source());
        while let Some(error) = cause {
            what = error.to_string();
            cause = error.source();
        }
        ApiError::Unavailable { what, wait: None }
    }

    /// Converts a response that is no success.
    pub(crate) fn from_response(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = said["message"].as_str().unwrap_or_default();
        let what = error_summary(status, message, &said);
        let limit =
            || rate_limit_wait(status, headers, message, said["documentation_url"].as_str().unwrap_or_default());
        match status.as_u16() {
            401 => ApiError::BadCredentials(what),
            403 | 429 => match limit() {
                Some(wait) => ApiError::Limited { wait },
                None => ApiError::Forbidden(what),
            },
            404 | 410 => ApiError::NotFound(what),
            408 | 500.. => ApiError::Unavailable { what, wait: retry_after(headers) },
            status => ApiError::Refused { status, what },
        }
    }
}

/// Returns how long to wait, if a limit is the reason.
fn rate_limit_wait(status: StatusCode, headers: &HeaderMap, message: &str, help: &str) -> Option<Duration> {
    if let Some(wait) = retry_after(headers) {
        return Some(wait);
    }
    if header_text(headers, "x-ratelimit-remaining") == Some("0") {
        return Some(until_reset(headers).unwrap_or(DEFAULT_RATE_LIMIT_WAIT));
    }
    let message = message.to_ascii_lowercase();
    let secondary = message.contains("rate limit") || message.contains("abuse") || help.contains("rate-limit");
    (secondary || status == StatusCode::TOO_MANY_REQUESTS).then_some(DEFAULT_RATE_LIMIT_WAIT)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = header_text(headers, "retry-after")?;
    // A date is allowed too, though GitHub sends none.
    Some(value.parse().map_or(DEFAULT_RATE_LIMIT_WAIT, Duration::from_secs).min(MAX_RATE_LIMIT_WAIT))
}

/// Returns the time until a limit is lifted, by GitHub's own clock.
fn until_reset(headers: &HeaderMap) -> Option<Duration> {
    let reset: i64 = header_text(headers, "x-ratelimit-reset")?.parse().ok()?;
    let now = header_text(headers, "date").and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    let now = now.map_or_else(|| jiff::Timestamp::now().as_second(), |now| now.timestamp().as_second());
    // One second more, because both times are rounded.
    let seconds = reset.checked_sub(now)?.max(0).checked_add(1)?;
    Some(Duration::from_secs(seconds.unsigned_abs()).min(MAX_RATE_LIMIT_WAIT))
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Returns GitHub's error message with its details, on one line.
fn error_summary(status: StatusCode, message: &str, said: &Value) -> String {
    let mut what = if message.is_empty() { status.to_string() } else { message.to_owned() };
    for error in said["errors"].as_array().into_iter().flatten().take(3) {
        let detail = error.as_str().or_else(|| error["message"].as_str()).or_else(|| error["code"].as_str());
        if let Some(detail) = detail {
            what = format!("{what}: {detail}");
        }
    }
    crate::clean::one_line(&what, 300)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response_error(status: u16, headers: &[(&'static str, &str)], message: &str) -> ApiError {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let body = serde_json::json!({ "message": message }).to_string();
        ApiError::from_response(StatusCode::from_u16(status).unwrap(), &map, body.as_bytes())
    }

    #[test]
    fn each_answer_says_what_to_do() {
        let date = ("date", "Thu, 01 Jan 2026 00:00:00 GMT");
        let seconds = |seconds| RetryAdvice::After(Duration::from_secs(seconds));
        for (status, headers, message, retry) in [
            (429, &[("retry-after", "30")][..], "", seconds(30)),
            (403, &[("retry-after", "7")], "You have exceeded a secondary rate limit", seconds(7)),
            (403, &[], "You have exceeded a secondary rate limit and have been …", seconds(60)),
            (429, &[], "", seconds(60)),
            (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1767225690"), date], "", seconds(91)),
            (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1"), date], "", seconds(1)),
            (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "9999999999"), date], "", seconds(7200)),
            (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "soon")], "", seconds(60)),
            (403, &[("x-ratelimit-remaining", "12")], "Resource not accessible by integration", RetryAdvice::Never),
            (500, &[], "", RetryAdvice::Later),
            (502, &[], "", RetryAdvice::Later),
            (503, &[("retry-after", "9")], "", seconds(9)),
            (401, &[], "Bad credentials", RetryAdvice::Later),
            (404, &[], "Not Found", RetryAdvice::Never),
            (410, &[], "This issue was deleted", RetryAdvice::Never),
            (422, &[], "Validation Failed", RetryAdvice::Never),
        ] {
            let error = response_error(status, headers, message);
            assert_eq!(error.retry_advice(), retry, "{status} {headers:?} {error:?}");
        }
    }

    #[test]
    fn whether_it_may_have_been_done() {
        assert!(response_error(500, &[], "").may_have_happened() && response_error(502, &[], "").may_have_happened());
        let nonsense = ApiError::Nonsense("<html>".to_owned());
        assert!(nonsense.may_have_happened() && nonsense.retry_advice() == RetryAdvice::Later);
        for status in [401, 403, 404, 422, 429] {
            assert!(!response_error(status, &[], "").may_have_happened(), "{status}");
        }
    }

    #[test]
    fn it_is_said_on_one_line() {
        let body = br#"{"message":"Validation Failed","errors":[{"message":"A pull request\nalready exists"},"x",{"code":"y"}]}"#;
        let error = ApiError::from_response(StatusCode::UNPROCESSABLE_ENTITY, &HeaderMap::new(), body);
        assert_eq!(error.to_string(), "GitHub refuses (422): Validation Failed: A pull request already exists: x: y");
        let page = ApiError::from_response(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"<html>");
        assert_eq!(page.to_string(), "GitHub does not answer: 502 Bad Gateway");
    }
}
