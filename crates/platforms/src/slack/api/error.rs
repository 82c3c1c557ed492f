//! Slack's errors, grouped by how to handle them.

use std::time::Duration;

use serde_json::Value;
use slack_morphism::errors::SlackClientError;

use crate::retry::ChatApiError;
use crate::slack::SLACK_PLATFORM;

/// The platform's name in sentences.
const NAME: &str = "Slack";
/// The pause after a rate limit that names no time.
const DEFAULT_LIMIT_PAUSE: Duration = Duration::from_secs(30);

pub(super) fn unavailable(what: &str) -> ChatApiError {
    ChatApiError::Unavailable { platform: NAME, what: what.to_owned() }
}

pub(super) fn to_chat_error(error: SlackClientError) -> ChatApiError {
    match error {
        SlackClientError::RateLimitError(limit) => limited(limit.retry_after),
        SlackClientError::ApiError(error) => from_code(&error.code, error.http_response_body.as_deref()),
        SlackClientError::HttpError(error) => unavailable(&format!("status {}", error.status_code.as_u16())),
        other => {
            tracing::debug!(platform = SLACK_PLATFORM, error = %other, "request failed");
            unavailable("the connection failed")
        }
    }
}

pub(super) fn limited(wait: Option<Duration>) -> ChatApiError {
    ChatApiError::Limited { platform: NAME, wait: wait.unwrap_or(DEFAULT_LIMIT_PAUSE) }
}

/// Converts the `error` of a response.
fn from_code(code: &str, body: Option<&str>) -> ChatApiError {
    match code {
        "ratelimited" | "rate_limited" | "message_limit_exceeded" => limited(None),
        "internal_error"
        | "fatal_error"
        | "service_unavailable"
        | "request_timeout"
        | "team_added_to_org"
        | "accesslimited" => unavailable(code),
        "invalid_auth"
        | "not_authed"
        | "account_inactive"
        | "token_revoked"
        | "token_expired"
        | "org_login_required"
        | "ekm_access_denied"
        | "not_allowed_token_type" => ChatApiError::BadCredentials { platform: NAME, what: code.to_owned() },
        // An administrator can add it, and then the request succeeds.
        "missing_scope" | "no_permission" => {
            let body: Option<Value> = body.and_then(|body| serde_json::from_str(body).ok());
            let needed = body.as_ref().and_then(|body| body["needed"].as_str()).unwrap_or("more");
            let what = format!("the app needs the scope `{needed}`; add it and install the app again");
            ChatApiError::BadCredentials { platform: NAME, what }
        }
        code => ChatApiError::Refused { platform: NAME, what: code.to_owned() },
    }
}

/// Tells whether a message cannot be updated any more, so that a new one is needed.
pub(crate) fn is_missing_message(error: &ChatApiError) -> bool {
    let gone = ["message_not_found", "cant_update_message", "edit_window_closed"];
    matches!(error, ChatApiError::Refused { what, .. } if gone.contains(&what.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::RetryAdvice;

    #[test]
    fn an_error_says_whether_to_try_again() {
        let advice = |code| from_code(code, None).retry_advice();
        for code in ["is_archived", "channel_not_found", "not_in_channel", "msg_too_long", "a_new_word"] {
            assert_eq!(advice(code), RetryAdvice::Never, "{code}");
        }
        for code in ["internal_error", "invalid_auth", "token_revoked", "missing_scope"] {
            assert_eq!(advice(code), RetryAdvice::Later, "{code}");
        }
        assert_eq!(advice("ratelimited"), RetryAdvice::After(DEFAULT_LIMIT_PAUSE));
        let named = from_code("missing_scope", Some(r#"{"needed":"chat:write"}"#)).to_string();
        assert!(named.contains("`chat:write`"), "{named}");
    }
}
