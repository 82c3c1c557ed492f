//! Slack: messages come in, answers go out.

use std::sync::Arc;

use async_trait::async_trait;
use grove_conversations::conversations::Conversations;
use grove_environments::settings::SlackSettings;
use tokio::sync::watch;

use crate::adapter::Adapter;
use crate::event_queue::EventQueue;
use crate::webhook::{WebhookError, WebhookReceiver, WebhookReply, WebhookRequest};

pub const SLACK_PLATFORM: &str = "slack";

/// The adapter.
pub struct SlackAdapter {
    conversations: Arc<Conversations>,
    settings: SlackSettings,
    queue: EventQueue,
}

impl SlackAdapter {
    /// Creates the adapter; `None` if Slack is not configured.
    pub fn new(conversations: &Arc<Conversations>, settings: SlackSettings) -> Option<Arc<Self>> {
        settings.bot_token.as_ref()?;
        let queue = EventQueue::new(SLACK_PLATFORM, conversations);
        Some(Arc::new(Self { conversations: conversations.clone(), settings, queue }))
    }
}

#[async_trait]
impl Adapter for SlackAdapter {
    fn name(&self) -> &'static str {
        SLACK_PLATFORM
    }

    async fn run_adapter(self: Arc<Self>, mut ending: watch::Receiver<bool>) {
        let _ = (&self.conversations, &self.settings, &self.queue);
        drop(ending.wait_for(|ending| *ending).await);
    }
}

#[async_trait]
impl WebhookReceiver for SlackAdapter {
    fn verify_request(&self, _request: WebhookRequest<'_>) -> Result<(), WebhookError> {
        Err(WebhookError::BadSignature)
    }

    async fn store_request(&self, _request: WebhookRequest<'_>) -> Result<WebhookReply, WebhookError> {
        Err(WebhookError::NoPayload)
    }
}
