//! Stores what Slack sends, without its secrets. The Events API comes in here; sockets use the same function.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::slack::adapter::SlackAdapter;
use crate::slack::inbound::classify::is_worth_storing;
use crate::slack::inbound::payload::{PayloadError, SlackPayload, parse_payload};
use crate::webhook::{WebhookError, WebhookReceiver, WebhookReply, WebhookRequest};

/// The fields of a payload that people write.
const PROSE_FIELDS: [&str; 5] = ["text", "title", "fallback", "preview", "plain_text"];
/// The fields that let others act for us; they are not needed.
const CREDENTIAL_FIELDS: [&str; 3] = ["token", "response_url", "trigger_id"];

impl From<PayloadError> for WebhookError {
    fn from(error: PayloadError) -> Self {
        Self::Malformed(error.to_string())
    }
}

#[async_trait]
impl WebhookReceiver for SlackAdapter {
    fn verify_request(&self, request: WebhookRequest<'_>) -> Result<(), WebhookError> {
        let secret = self.signing_secret.as_ref().ok_or(WebhookError::BadSignature)?;
        let header = |name| request.header(name).unwrap_or_default();
        let (time, signature) = (header("x-slack-request-timestamp"), header("x-slack-signature"));
        let is_signed = secret.verifies(time, signature, request.body, Timestamp::now().as_second());
        if is_signed { Ok(()) } else { Err(WebhookError::BadSignature) }
    }

    async fn store_request(&self, request: WebhookRequest<'_>) -> Result<WebhookReply, WebhookError> {
        let content_type = request.header("content-type").unwrap_or_default();
        let is_form = content_type.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded");
        let payload = if is_form {
            let (_, payload) = form_urlencoded::parse(request.body)
                .find(|(name, _)| name == "payload")
                .ok_or(WebhookError::NoPayload)?;
            serde_json::from_str(&payload)
        } else {
            serde_json::from_slice(request.body)
        };
        let payload: Value = payload.map_err(|error| WebhookError::Malformed(error.to_string()))?;
        if let SlackPayload::Verification { challenge } = parse_payload(&payload)? {
            return Ok(WebhookReply::Text(challenge));
        }
        Ok(WebhookReply::Accepted { new: self.store_payload(payload).await? })
    }
}

impl SlackAdapter {
    /// Stores a payload; it is in the store when this returns. Returns whether it needs handling and is new.
    pub(crate) async fn store_payload(&self, mut payload: Value) -> Result<bool, WebhookError> {
        let parsed = parse_payload(&payload)?;
        if !is_worth_storing(&parsed) {
            return Ok(false);
        }
        let (delivery, kind) = match &parsed {
            // A mention comes as two events about the same message; the inbox takes the message once.
            SlackPayload::Message { event_id, event } => {
                let kind = if event.is_mention { "app_mention" } else { "message" };
                let unnamed = || format!("{kind} {}:{}", event.channel, event.ts);
                (event_id.clone().unwrap_or_else(unnamed), kind)
            }
            SlackPayload::Press(press) => (
                format!("press {}:{} {} {}", press.channel, press.message_ts, press.user, press.action_ts),
                "block_actions",
            ),
            SlackPayload::Verification { .. } | SlackPayload::Other => return Ok(false),
        };
        self.conversations.redactor.clean_json(&mut payload, |key| PROSE_FIELDS.contains(&key));
        if let Some(fields) = payload.as_object_mut() {
            CREDENTIAL_FIELDS.iter().for_each(|name| drop(fields.remove(*name)));
        }
        Ok(self.queue.store_event(delivery, kind.to_owned(), payload.to_string()).await?)
    }
}
