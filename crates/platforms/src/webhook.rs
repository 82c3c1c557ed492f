//! Webhooks of platforms: first the sender is verified, then the body is parsed and stored.

use async_trait::async_trait;
use grove_store::StoreError;
use http::HeaderMap;

/// A webhook request as it came in.
#[derive(Clone, Copy, Debug)]
pub struct WebhookRequest<'a> {
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

impl<'a> WebhookRequest<'a> {
    /// Returns a header; `None` if it is missing or not text.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The answer to an accepted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookReply {
    /// The event is stored, unless it needs no handling. `new`: it needs handling and was not sent before.
    Accepted { new: bool },
    /// The platform wants to read this text.
    Text(String),
}

/// The reason why a request is rejected. No part of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("the request is not signed with the secret that both sides know")]
    BadSignature,
    #[error("the request has no `{0}`")]
    Missing(&'static str),
    #[error("the form has no payload")]
    NoPayload,
    #[error("{0}")]
    Malformed(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An adapter that receives webhooks.
#[async_trait]
pub trait WebhookReceiver: Send + Sync {
    /// Checks that the platform sent the request. Nothing in it is trusted before that.
    fn verify_request(&self, request: WebhookRequest<'_>) -> Result<(), WebhookError>;

    /// Stores a verified request: it is in the store when this returns.
    async fn store_request(&self, request: WebhookRequest<'_>) -> Result<WebhookReply, WebhookError>;
}
