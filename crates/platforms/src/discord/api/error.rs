//! The reasons why a request to Discord failed.

use std::time::Duration;

use grove_conversations::delivery::outbox_sender::DeliveryError;
use twilight_http::api_error::ApiError;
use twilight_http::error::{Error, ErrorType};

use crate::discord::adapter::DISCORD_PLATFORM;
use crate::event_queue::HandleError;
use crate::retry::ChatApiError;

/// The name that people know.
const PLATFORM_NAME: &str = "Discord";

/// Discord's code for a message that already has a thread.
const THREAD_EXISTS_CODE: u64 = 160_004;

/// A failed request.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct DiscordApiError {
    pub kind: ChatApiError,
    /// The status of the response; 0 without one.
    status: u16,
    /// Discord's own code; 0 without one.
    code: u64,
}

impl DiscordApiError {
    pub(crate) fn limited(wait: Duration) -> Self {
        Self { kind: ChatApiError::Limited { platform: PLATFORM_NAME, wait }, status: 429, code: 0 }
    }

    pub(crate) fn unavailable(what: impl Into<String>) -> Self {
        Self { kind: ChatApiError::Unavailable { platform: PLATFORM_NAME, what: what.into() }, status: 0, code: 0 }
    }

    pub(crate) fn from_client(error: &Error) -> Self {
        match error.kind() {
            ErrorType::Response { error, status, .. } => {
                let (code, what) = match error {
                    ApiError::General(general) => (general.code, format!("{} ({})", general.message, general.code)),
                    _ => (0, format!("status {}", status.get())),
                };
                Self::of_status(status.get(), code, what)
            }
            ErrorType::Unauthorized => Self::of_status(401, 0, "the token is not valid".to_owned()),
            ErrorType::BuildingRequest | ErrorType::CreatingHeader { .. } | ErrorType::Json | ErrorType::Validation => {
                Self::of_status(400, 0, error.to_string())
            }
            // The body may be a page of a proxy.
            ErrorType::Parsing { .. } => Self::unavailable("its answer is not JSON"),
            _ => Self::unavailable(error.to_string()),
        }
    }

    fn of_status(status: u16, code: u64, what: String) -> Self {
        let platform = PLATFORM_NAME;
        let kind = match status {
            401 => ChatApiError::BadCredentials { platform, what },
            408 | 500.. => ChatApiError::Unavailable { platform, what },
            _ => ChatApiError::Refused { platform, what },
        };
        Self { kind, status, code }
    }

    pub fn is_not_found(&self) -> bool {
        self.status == 404
    }

    /// Tells whether Discord understood the request and does not carry it out.
    pub fn is_refused(&self) -> bool {
        matches!(self.kind, ChatApiError::Refused { .. })
    }

    pub fn is_thread_there(&self) -> bool {
        self.code == THREAD_EXISTS_CODE
    }

    pub fn is_bad_credentials(&self) -> bool {
        matches!(self.kind, ChatApiError::BadCredentials { .. })
    }
}

impl From<DiscordApiError> for HandleError {
    fn from(error: DiscordApiError) -> Self {
        error.kind.into()
    }
}

impl From<DiscordApiError> for DeliveryError {
    fn from(error: DiscordApiError) -> Self {
        error.kind.into()
    }
}

/// Logs a failure of something that is only nice to have.
pub(crate) fn log_optional(what: &'static str, result: Result<(), DiscordApiError>) {
    if let Err(error) = result {
        tracing::info!(platform = DISCORD_PLATFORM, %error, "{what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::RetryAdvice;

    #[test]
    fn a_status_decides_what_to_do() {
        for (status, advice) in [
            (400, RetryAdvice::Never),
            (401, RetryAdvice::Later),
            (403, RetryAdvice::Never),
            (404, RetryAdvice::Never),
            (408, RetryAdvice::Later),
            (500, RetryAdvice::Later),
            (503, RetryAdvice::Later),
        ] {
            let error = DiscordApiError::of_status(status, 0, String::new());
            assert_eq!(error.kind.retry_advice(), advice, "{status}");
            assert_eq!(error.is_refused(), advice == RetryAdvice::Never);
        }
        assert!(DiscordApiError::of_status(400, 160_004, String::new()).is_thread_there());
        let limited = DiscordApiError::limited(Duration::from_secs(30));
        assert_eq!(limited.kind.retry_advice(), RetryAdvice::After(Duration::from_secs(30)));
    }
}
