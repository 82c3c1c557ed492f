//! The Slack adapter: stores incoming events, turns them into messages, and posts answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use grove_conversations::conversations::Conversations;
use grove_conversations::delivery::outbox_sender;
use grove_environments::settings::SlackSettings;
use tokio::sync::watch;

use crate::adapter::{Adapter, AdapterState, record_state};
use crate::event_queue::EventQueue;
use crate::slack::SLACK_PLATFORM;
use crate::slack::api::{SlackApi, SlackSetupError};
use crate::slack::health::SlackHealth;
use crate::slack::inbound::classify::BotAccount;
use crate::slack::inbound::handle::SlackEventHandler;
use crate::slack::inbound::signature::SigningSecret;
use crate::slack::inbound::sockets::run_sockets;
use crate::slack::outbound::messages::MessageSender;

/// The maximum number of cached names of users.
const MAX_CACHED_NAMES: usize = 10_000;

/// The adapter.
pub struct SlackAdapter {
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) settings: SlackSettings,
    pub(crate) signing_secret: Option<SigningSecret>,
    pub(crate) queue: EventQueue,
    /// Our own account, once it is known.
    pub(crate) us: watch::Sender<Option<BotAccount>>,
    pub(crate) health: SlackHealth,
    /// The names of users by id; `None` for those that Slack does not tell.
    names: Mutex<HashMap<String, Option<String>>>,
}

impl SlackAdapter {
    /// Creates the adapter; `None` if Slack is not configured.
    pub fn new(conversations: &Arc<Conversations>, settings: SlackSettings) -> Option<Arc<Self>> {
        settings.bot_token.as_ref()?;
        Some(Arc::new(Self {
            conversations: conversations.clone(),
            signing_secret: settings.signing_secret.as_deref().and_then(SigningSecret::new),
            queue: EventQueue::new(SLACK_PLATFORM, conversations),
            us: watch::Sender::new(None),
            health: SlackHealth::new(settings.app_token.is_some()),
            names: Mutex::default(),
            settings,
        }))
    }

    pub(crate) fn bot_account(&self) -> Option<BotAccount> {
        self.us.borrow().clone()
    }

    /// Records the current state for people.
    pub(crate) async fn report_health(&self) {
        if let Some((state, detail)) = self.health.state() {
            record_state(&self.conversations, SLACK_PLATFORM, state, &detail).await;
        }
    }

    /// Returns what is known about the name of a user.
    pub(crate) fn cached_name(&self, user: &str) -> Option<Option<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).get(user).cloned()
    }

    pub(crate) fn cache_name(&self, user: &str, name: Option<String>) -> Option<String> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= MAX_CACHED_NAMES {
            names.clear();
        }
        names.insert(user.to_owned(), name.clone());
        name
    }
}

/// Creates the client for the settings.
pub(crate) fn build_slack_api(settings: &SlackSettings) -> Result<SlackApi, SlackSetupError> {
    let bot_token = settings.bot_token.as_deref().unwrap_or_default();
    SlackApi::new(&settings.chat.api_url, bot_token, settings.app_token.as_deref())
}

#[async_trait]
impl Adapter for SlackAdapter {
    fn name(&self) -> &'static str {
        SLACK_PLATFORM
    }

    async fn run_adapter(self: Arc<Self>, mut ending: watch::Receiver<bool>) {
        let api = match build_slack_api(&self.settings) {
            Ok(api) => Arc::new(api),
            Err(error) => {
                tracing::error!(%error, "Slack is not connected");
                record_state(&self.conversations, SLACK_PLATFORM, AdapterState::Failing, &error.to_string()).await;
                drop(ending.wait_for(|ending| *ending).await);
                return;
            }
        };
        let update_interval = self.settings.chat.update_interval;
        let platform = Arc::new(MessageSender { api: api.clone(), update_interval, us: self.us.subscribe() });
        let sending = outbox_sender::run_outbox(self.conversations.clone(), platform, ending.clone());
        let handler = SlackEventHandler { adapter: &self, api: &api };
        let working = self.queue.run_worker(&handler, ending.clone());
        let listening = run_sockets(&self, &api, &ending);
        tokio::join!(sending, working, listening);
    }
}
