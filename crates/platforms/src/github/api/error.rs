//! What can go wrong with GitHub, by what is to be done about it.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// A limit was reached: nothing was done, and nothing is to be asked before the time is over.
    #[error("GitHub asks us to wait {} seconds", .wait.as_secs())]
    Limited { wait: Duration },
    /// It may have been done, or not.
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
    /// It was done, if GitHub said so: what came back cannot be read.
    #[error("GitHub's answer makes no sense: {0}")]
    Nonsense(String),
}

/// What is to be done about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same again, not before so much time has passed.
    After(Duration),
    /// The same again after a while, which grows.
    Later,
    /// The same again has the same end.
    Never,
}

/// What GitHub tells to wait for where it names no time.
const A_MINUTE: Duration = Duration::from_secs(60);

/// No longer than the limits last, whatever the clocks say.
const LONGEST: Duration = Duration::from_secs(2 * 60 * 60);

impl ApiError {
    pub fn retry(&self) -> Retry {
        match self {
            ApiError::Limited { wait } | ApiError::Unavailable { wait: Some(wait), .. } => Retry::After(*wait),
            // What makes no sense is more often a proxy's page than GitHub's own.
            ApiError::Unavailable { wait: None, .. } | ApiError::BadCredentials(_) | ApiError::Nonsense(_) => {
                Retry::Later
            }
            ApiError::Forbidden(_) | ApiError::NotFound(_) | ApiError::Refused { .. } => Retry::Never,
        }
    }

    /// Whether nothing else would be answered either: GitHub wants to be left alone, or does not know us.
    pub fn concerns_all(&self) -> bool {
        matches!(self.retry(), Retry::After(_)) || matches!(self, ApiError::BadCredentials(_))
    }

    /// Whether what was asked for may have been done in spite of the error.
    pub fn may_have_happened(&self) -> bool {
        matches!(self, ApiError::Unavailable { .. } | ApiError::Nonsense(_))
    }

    /// The connection could not be made, or broke.
    pub(crate) fn broken(error: &dyn std::error::Error) -> Self {
        let (mut what, mut cause) = (error.to_string(), error.source());
        while let Some(error) = cause {
            what = error.to_string();
            cause = error.source();
        }
        ApiError::Unavailable { what, wait: None }
    }

    /// What an answer that is no success means.
    pub(crate) fn of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = said["message"].as_str().unwrap_or_default();
        let what = summary(status, message, &said);
        let limit = || limited(status, headers, message, said["documentation_url"].as_str().unwrap_or_default());
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

/// How long to wait, if a limit is the reason.
fn limited(status: StatusCode, headers: &HeaderMap, message: &str, help: &str) -> Option<Duration> {
    if let Some(wait) = retry_after(headers) {
        return Some(wait);
    }
    if text(headers, "x-ratelimit-remaining") == Some("0") {
        return Some(until_reset(headers).unwrap_or(A_MINUTE));
    }
    let message = message.to_ascii_lowercase();
    let secondary = message.contains("rate limit") || message.contains("abuse") || help.contains("rate-limit");
    (secondary || status == StatusCode::TOO_MANY_REQUESTS).then_some(A_MINUTE)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = text(headers, "retry-after")?;
    // A date is allowed too, though GitHub sends none.
    Some(value.parse().map_or(A_MINUTE, Duration::from_secs).min(LONGEST))
}

/// The time until a limit is lifted, by GitHub's own clock.
fn until_reset(headers: &HeaderMap) -> Option<Duration> {
    let reset: i64 = text(headers, "x-ratelimit-reset")?.parse().ok()?;
    let now = text(headers, "date").and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    let now = now.map_or_else(|| jiff::Timestamp::now().as_second(), |now| now.timestamp().as_second());
    // A second more: the two are rounded.
    let seconds = reset.checked_sub(now)?.max(0).checked_add(1)?;
    Some(Duration::from_secs(seconds.unsigned_abs()).min(LONGEST))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// What it says, with the details that it gives, on one line.
fn summary(status: StatusCode, message: &str, said: &Value) -> String {
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

    fn error(status: u16, headers: &[(&'static str, &str)], message: &str) -> ApiError {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let body = serde_json::json!({ "message": message }).to_string();
        ApiError::of(StatusCode::from_u16(status).unwrap(), &map, body.as_bytes())
    }

    #[test]
    fn each_answer_says_what_to_do() {
        let date = ("date", "Thu, 01 Jan 2026 00:00:00 GMT");
        let seconds = |seconds| Retry::After(Duration::from_secs(seconds));
        for (status, headers, message, retry) in [
            (429, &[("retry-after", "30")][..], "", seconds(30)),
            (403, &[("retry-after", "7")], "You have exceeded a secondary rate limit", seconds(7)),
            (403, &[], "You have exceeded a secondary rate limit and have been …", seconds(60)),
            (429, &[], "", seconds(60)),
            (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1767225690"), date], "", seconds(91)),
            (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1"), date], "", seconds(1)),
            (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "9999999999"), date], "", seconds(7200)),
            (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "soon")], "", seconds(60)),
            (403, &[("x-ratelimit-remaining", "12")], "Resource not accessible by integration", Retry::Never),
            (500, &[], "", Retry::Later),
            (502, &[], "", Retry::Later),
            (503, &[("retry-after", "9")], "", seconds(9)),
            (401, &[], "Bad credentials", Retry::Later),
            (404, &[], "Not Found", Retry::Never),
            (410, &[], "This issue was deleted", Retry::Never),
            (422, &[], "Validation Failed", Retry::Never),
        ] {
            let error = error(status, headers, message);
            assert_eq!(error.retry(), retry, "{status} {headers:?} {error:?}");
        }
    }

    #[test]
    fn whether_it_may_have_been_done() {
        assert!(error(500, &[], "").may_have_happened() && error(502, &[], "").may_have_happened());
        let nonsense = ApiError::Nonsense("<html>".to_owned());
        assert!(nonsense.may_have_happened() && nonsense.retry() == Retry::Later);
        for status in [401, 403, 404, 422, 429] {
            assert!(!error(status, &[], "").may_have_happened(), "{status}");
        }
    }

    #[test]
    fn it_is_said_on_one_line() {
        let body = br#"{"message":"Validation Failed","errors":[{"message":"A pull request\nalready exists"},"x",{"code":"y"}]}"#;
        let error = ApiError::of(StatusCode::UNPROCESSABLE_ENTITY, &HeaderMap::new(), body);
        assert_eq!(error.to_string(), "GitHub refuses (422): Validation Failed: A pull request already exists: x: y");
        let page = ApiError::of(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"<html>");
        assert_eq!(page.to_string(), "GitHub does not answer: 502 Bad Gateway");
    }
}
