//! Accepts webhooks: first the signature is verified, then the payload is parsed. It is stored as it came,
//! except for secrets.

use grove_store::{NewEvent, StoreError};
use serde_json::Value;

use crate::github::adapter::GithubAdapter;
use crate::github::inbound::classify::GITHUB_PLATFORM;
use crate::github::inbound::event::{DeliveryParseError, ParsedDelivery, parse_delivery};
use crate::github::inbound::payload::{self, without_secrets};
use crate::github::inbound::signature::WebhookSignature;

/// A webhook request as it came in.
#[derive(Clone, Copy, Debug, Default)]
pub struct WebhookRequest<'a> {
    /// `X-Hub-Signature-256`
    pub signature: Option<&'a [u8]>,
    /// `X-GitHub-Event`
    pub event: Option<&'a str>,
    /// `X-GitHub-Delivery`
    pub delivery: Option<&'a str>,
    pub content_type: &'a str,
    pub body: &'a [u8],
}

/// The reason why a delivery is rejected. No part of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("the delivery is not signed with the webhook's secret")]
    BadSignature,
    #[error("the delivery has no `{0}`")]
    Missing(&'static str),
    #[error("the delivery's form has no payload")]
    NoPayload,
    #[error(transparent)]
    Malformed(#[from] DeliveryParseError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The longest id of a delivery; GitHub's have 36 characters.
const MAX_DELIVERY_NAME_LENGTH: usize = 200;

/// A delivery that is signed with the webhook's secret.
#[derive(Clone, Copy, Debug)]
pub struct SignedDelivery<'a>(WebhookRequest<'a>);

impl GithubAdapter {
    /// Verifies the signature of a delivery.
    pub fn verify_signature<'a>(&self, knock: WebhookRequest<'a>) -> Result<SignedDelivery<'a>, WebhookError> {
        let signature = knock.signature.and_then(WebhookSignature::parse).ok_or(WebhookError::BadSignature)?;
        if !self.secrets.matches_signature(signature, knock.body) {
            return Err(WebhookError::BadSignature);
        }
        Ok(SignedDelivery(knock))
    }

    /// Stores a delivery: it is in the store when this returns, unless it needs no handling. Returns whether
    /// it is new.
    pub async fn store_delivery(&self, SignedDelivery(knock): SignedDelivery<'_>) -> Result<bool, WebhookError> {
        let named = |value: Option<&str>, name| {
            let value = value.filter(|value| !value.is_empty() && value.len() <= MAX_DELIVERY_NAME_LENGTH);
            value.map(str::to_owned).ok_or(WebhookError::Missing(name))
        };
        let kind = named(knock.event, "X-GitHub-Event")?;
        let delivery = named(knock.delivery, "X-GitHub-Delivery")?;
        let payload = payload::extract_payload(knock.content_type, knock.body).ok_or(WebhookError::NoPayload)?;
        match parse_delivery(&kind, &payload)? {
            ParsedDelivery::Ping | ParsedDelivery::Ignored(_) => return Ok(false),
            ParsedDelivery::Happened(_) => {}
        }
        // The signature is for the original bytes; the stored payload has no secrets.
        let mut payload: Value = serde_json::from_slice(&payload).map_err(DeliveryParseError::from)?;
        without_secrets(&self.conversations.redactor, &mut payload);
        let body = payload.to_string();
        Ok(self
            .event_writer
            .store_event(NewEvent { platform: GITHUB_PLATFORM.to_owned(), delivery, kind, body })
            .await?)
    }
}
