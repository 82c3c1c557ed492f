//! Accepts updates that Telegram sends. Telegram does not sign them; it sends a secret that both sides know.

use async_trait::async_trait;
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;

use crate::telegram::TelegramAdapter;
use crate::telegram::inbound::wire::Update;
use crate::webhook::{WebhookError, WebhookReceiver, WebhookReply, WebhookRequest};

const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";

#[async_trait]
impl WebhookReceiver for TelegramAdapter {
    fn verify_request(&self, request: WebhookRequest<'_>) -> Result<(), WebhookError> {
        let given = request.headers.get(SECRET_HEADER).map(|value| value.as_bytes());
        let secret = self.settings.webhook_secret.as_deref().filter(|secret| !secret.is_empty());
        match (secret, given) {
            (Some(secret), Some(given)) if is_same_secret(secret.as_bytes(), given) => Ok(()),
            _ => Err(WebhookError::BadSignature),
        }
    }

    async fn store_request(&self, request: WebhookRequest<'_>) -> Result<WebhookReply, WebhookError> {
        let malformed = |error: serde_json::Error| WebhookError::Malformed(format!("the body is no update: {error}"));
        let update = Update::parse(request.body).map_err(malformed)?;
        let body: Value = serde_json::from_slice(request.body).map_err(malformed)?;
        if update.message.is_none() && update.callback_query.is_none() && update.my_chat_member.is_none() {
            return Ok(WebhookReply::Accepted { new: false });
        }
        Ok(WebhookReply::Accepted { new: self.store_update(update.update_id, body).await? })
    }
}

/// Compares two texts in a time that tells nothing about them.
fn is_same_secret(secret: &[u8], given: &[u8]) -> bool {
    let Ok(key) = Hmac::<Sha256>::new_from_slice(secret) else { return false };
    let expected = key.clone().chain_update(secret).finalize().into_bytes();
    key.chain_update(given).verify(&expected).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_secret_is_the_same() {
        assert!(is_same_secret(b"secret", b"secret"));
        for other in ["", "secre", "secret ", "Secret", "secret\0"] {
            assert!(!is_same_secret(b"secret", other.as_bytes()), "{other}");
        }
    }
}
