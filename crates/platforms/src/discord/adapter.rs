//! The Discord adapter: stores incoming events, turns them into messages, and posts answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use grove_conversations::conversations::Conversations;
use grove_conversations::delivery::outbox_sender;
use grove_environments::settings::DiscordSettings;
use grove_store::StoreError;
use tokio::sync::{oneshot, watch};

use crate::adapter::{Adapter, AdapterState, record_state};
use crate::discord::api::{DiscordClient, DiscordSetupError, Snowflake, check_gateway_url};
use crate::discord::inbound::classify::BotUser;
use crate::discord::inbound::events::DiscordEventHandler;
use crate::discord::inbound::gateway::run_gateway;
use crate::discord::outbound::messages::MessageSender;
use crate::discord::outbound::slash_commands::run_registration;
use crate::event_queue::EventQueue;

pub const DISCORD_PLATFORM: &str = "discord";

/// The adapter.
pub struct DiscordAdapter {
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) settings: DiscordSettings,
    pub(crate) queue: EventQueue,
    /// Our own account, once it is known.
    pub(crate) us: watch::Sender<Option<BotUser>>,
    /// The newest message that was seen.
    pub(crate) latest_message: Mutex<Option<Snowflake>>,
    /// The interactions that wait for the reply of their handler.
    pub(crate) open_interactions: Mutex<BTreeMap<Snowflake, oneshot::Sender<&'static str>>>,
}

impl DiscordAdapter {
    /// Creates the adapter; `None` if Discord is not configured.
    pub fn new(conversations: &Arc<Conversations>, settings: DiscordSettings) -> Option<Arc<Self>> {
        settings.token.as_ref()?;
        Some(Arc::new(Self {
            queue: EventQueue::new(DISCORD_PLATFORM, conversations),
            conversations: conversations.clone(),
            settings,
            us: watch::Sender::new(None),
            latest_message: Mutex::default(),
            open_interactions: Mutex::default(),
        }))
    }

    pub(crate) async fn record_state(&self, state: AdapterState, detail: &str) {
        record_state(&self.conversations, DISCORD_PLATFORM, state, detail).await;
    }

    pub(crate) async fn record_connected(&self) {
        let name = self.us.borrow().as_ref().map(|us| us.name.clone()).unwrap_or_default();
        self.record_state(AdapterState::Connected, &format!("as {name}")).await;
    }

    /// Remembers a thread that the bot makes.
    pub(crate) async fn remember_own_thread(&self, thread: Snowflake, parent: Snowflake) -> Result<(), StoreError> {
        self.conversations.store.set_mark(DISCORD_PLATFORM, &format!("thread {thread}"), &parent.to_string()).await
    }

    /// Returns the channel in which the bot made a thread; `None` for other threads and channels.
    pub(crate) async fn own_thread_parent(&self, channel: Snowflake) -> Result<Option<Snowflake>, StoreError> {
        let mark = self.conversations.store.find_mark(DISCORD_PLATFORM, &format!("thread {channel}")).await?;
        Ok(mark.and_then(|parent| parent.parse().ok()))
    }

    /// Remembers a channel of direct messages.
    pub(crate) async fn remember_direct_channel(&self, channel: Snowflake) -> Result<(), StoreError> {
        self.conversations.store.set_first_mark(DISCORD_PLATFORM, &format!("direct {channel}"), "yes").await
    }

    pub(crate) async fn is_direct_channel(&self, channel: Snowflake) -> Result<bool, StoreError> {
        Ok(self.conversations.store.find_mark(DISCORD_PLATFORM, &format!("direct {channel}")).await?.is_some())
    }

    /// Prepares the connection: the client, and the address of the gateway.
    async fn set_up(&self) -> Result<(DiscordClient, String), DiscordSetupError> {
        let gateway_url = check_gateway_url(&self.settings.gateway_url)?;
        let token = self.settings.token.as_deref().unwrap_or_default();
        Ok((DiscordClient::new(&self.settings.chat.api_url, token).await?, gateway_url))
    }
}

#[async_trait]
impl Adapter for DiscordAdapter {
    fn name(&self) -> &'static str {
        DISCORD_PLATFORM
    }

    async fn run_adapter(self: Arc<Self>, mut ending: watch::Receiver<bool>) {
        let (discord, gateway_url) = match self.set_up().await {
            Ok(both) => both,
            Err(error) => {
                tracing::error!(%error, "Discord cannot be used");
                self.record_state(AdapterState::Failing, &error.to_string()).await;
                drop(ending.wait_for(|ending| *ending).await);
                return;
            }
        };
        let platform = Arc::new(MessageSender {
            discord: discord.clone(),
            store: self.conversations.store.clone(),
            update_interval: self.settings.chat.update_interval,
            us: self.us.subscribe(),
        });
        let sending = outbox_sender::run_outbox(self.conversations.clone(), platform, ending.clone());
        let handler = DiscordEventHandler { adapter: &self, discord: &discord };
        let working = self.queue.run_worker(&handler, ending.clone());
        let listening = run_gateway(&self, &discord, &gateway_url, ending.clone());
        let registering = run_registration(&discord, ending);
        tokio::join!(sending, working, listening, registering);
    }
}
