//! Accepts webhooks: first the signature is verified, then the payload is parsed. It is stored as it came,
//! except for secrets.

use async_trait::async_trait;
use serde_json::Value;

use crate::github::adapter::GithubAdapter;
use crate::github::inbound::event::{DeliveryParseError, ParsedDelivery, parse_delivery};
use crate::github::inbound::payload::{self, without_secrets};
use crate::github::inbound::signature::WebhookSignature;
use crate::webhook::{WebhookError, WebhookReceiver, WebhookReply, WebhookRequest};

/// The longest id of a delivery; GitHub's have 36 characters.
const MAX_DELIVERY_NAME_LENGTH: usize = 200;

impl From<DeliveryParseError> for WebhookError {
    fn from(error: DeliveryParseError) -> Self {
        Self::Malformed(error.to_string())
    }
}

#[async_trait]
impl WebhookReceiver for GithubAdapter {
    fn verify_request(&self, request: WebhookRequest<'_>) -> Result<(), WebhookError> {
        let signature = request.headers.get("x-hub-signature-256").map(|value| value.as_bytes());
        let signature = signature.and_then(WebhookSignature::parse).ok_or(WebhookError::BadSignature)?;
        if self.secrets.matches_signature(signature, request.body) { Ok(()) } else { Err(WebhookError::BadSignature) }
    }

    async fn store_request(&self, request: WebhookRequest<'_>) -> Result<WebhookReply, WebhookError> {
        let named = |name: &'static str| {
            let value =
                request.header(name).filter(|value| !value.is_empty() && value.len() <= MAX_DELIVERY_NAME_LENGTH);
            value.map(str::to_owned).ok_or(WebhookError::Missing(name))
        };
        let kind = named("X-GitHub-Event")?;
        let delivery = named("X-GitHub-Delivery")?;
        let content_type = request.header("content-type").unwrap_or_default();
        let payload = payload::extract_payload(content_type, request.body).ok_or(WebhookError::NoPayload)?;
        match parse_delivery(&kind, &payload)? {
            ParsedDelivery::Ping | ParsedDelivery::Ignored(_) => return Ok(WebhookReply::Accepted { new: false }),
            ParsedDelivery::Happened(_) => {}
        }
        // The signature is for the original bytes; the stored payload has no secrets.
        let mut payload: Value = serde_json::from_slice(&payload).map_err(DeliveryParseError::from)?;
        without_secrets(&self.conversations.redactor, &mut payload);
        let new = self.queue.store_event(delivery, kind, payload.to_string()).await?;
        Ok(WebhookReply::Accepted { new })
    }
}
