//! Errors of a platform's API, grouped by how to handle them.

use std::time::Duration;

use grove_conversations::delivery::outbox_sender::DeliveryError;

use crate::event_queue::HandleError;

/// The way to handle an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// Retry, but not before this time has passed.
    After(Duration),
    /// Retry after a growing delay.
    Later,
    /// Do not retry: it would fail again.
    Never,
}

/// An error of a chat platform's API.
#[derive(Debug, thiserror::Error)]
pub enum ChatApiError {
    /// A rate limit was reached: nothing was done, and no request may be sent before the time is over.
    #[error("{platform} asks us to wait {} seconds", .wait.as_secs())]
    Limited { platform: &'static str, wait: Duration },
    /// The request may or may not have been carried out.
    #[error("{platform} does not answer: {what}")]
    Unavailable { platform: &'static str, what: String },
    #[error("{platform} does not take our credentials: {what}")]
    BadCredentials { platform: &'static str, what: String },
    #[error("{platform} refuses: {what}")]
    Refused { platform: &'static str, what: String },
}

impl ChatApiError {
    pub fn retry_advice(&self) -> RetryAdvice {
        match self {
            Self::Limited { wait, .. } => RetryAdvice::After(*wait),
            Self::Unavailable { .. } | Self::BadCredentials { .. } => RetryAdvice::Later,
            Self::Refused { .. } => RetryAdvice::Never,
        }
    }

    /// Tells whether every other request would fail too.
    pub fn concerns_all(&self) -> bool {
        matches!(self, Self::Limited { .. } | Self::BadCredentials { .. })
    }
}

impl From<ChatApiError> for HandleError {
    fn from(error: ChatApiError) -> Self {
        Self::Failed { advice: error.retry_advice(), concerns_all: error.concerns_all(), why: error.to_string() }
    }
}

impl From<ChatApiError> for DeliveryError {
    fn from(error: ChatApiError) -> Self {
        let why = error.to_string();
        match error.retry_advice() {
            RetryAdvice::After(after) => Self::Later { after: Some(after), why },
            RetryAdvice::Later => Self::Later { after: None, why },
            RetryAdvice::Never => Self::Never(why),
        }
    }
}
