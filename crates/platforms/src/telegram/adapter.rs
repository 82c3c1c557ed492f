//! The Telegram adapter: stores updates, turns them into messages, and posts answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use grove_conversations::backoff::RETRY_BACKOFF;
use grove_conversations::conversations::Conversations;
use grove_conversations::delivery::outbox_sender;
use grove_environments::settings::{ChatSettings, TelegramSettings};
use jiff::SignedDuration;
use tokio::sync::watch;

use crate::adapter::{Adapter, AdapterState, record_state};
use crate::event_queue::{EventQueue, LONGEST_RETRY_DELAY, retry_delay};
use crate::mention::BotName;
use crate::retry::ChatApiError;
use crate::telegram::api::{BotAccount, TelegramClient, TelegramError};
use crate::telegram::inbound::classify::BotIdentity;
use crate::telegram::inbound::handle::TelegramEventHandler;
use crate::telegram::inbound::poll::run_polling;
use crate::telegram::outbound::messages::MessageSender;

pub const TELEGRAM_PLATFORM: &str = "telegram";

/// The adapter.
pub struct TelegramAdapter {
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) settings: TelegramSettings,
    pub(crate) queue: EventQueue,
    /// The client, or the reason why there is none.
    client: Result<TelegramClient, TelegramError>,
    /// Our account, once Telegram has confirmed it.
    us: watch::Sender<Option<BotIdentity>>,
    is_failing: AtomicBool,
}

impl TelegramAdapter {
    /// Creates the adapter; `None` if Telegram is not configured.
    pub fn new(conversations: &Arc<Conversations>, settings: TelegramSettings) -> Option<Arc<Self>> {
        let token = settings.token.as_deref()?.trim().to_owned();
        Some(Arc::new(Self {
            client: TelegramClient::new(&settings, &token),
            queue: EventQueue::new(TELEGRAM_PLATFORM, conversations),
            conversations: conversations.clone(),
            settings,
            us: watch::Sender::new(None),
            is_failing: AtomicBool::new(false),
        }))
    }

    /// Tells whether Telegram sends the updates itself.
    pub(crate) fn uses_webhook(&self) -> bool {
        self.settings.webhook_secret.is_some()
    }

    /// Returns the id of the bot, which is the beginning of its token; 0 if the token has none.
    pub(crate) fn bot_id(&self) -> i64 {
        let token = self.settings.token.as_deref().unwrap_or_default();
        token.trim().split(':').next().and_then(|id| id.parse().ok()).unwrap_or(0)
    }

    /// Returns the settings that may change while the server runs.
    pub(crate) fn chat_settings(&self) -> ChatSettings {
        self.conversations.settings.current().telegram_settings().chat
    }

    pub(crate) fn identity(&self) -> Option<BotIdentity> {
        self.us.borrow().clone()
    }

    /// Waits until our account is known.
    pub(crate) async fn wait_for_identity(&self) {
        // The sender lives as long as this value.
        drop(self.us.subscribe().wait_for(Option::is_some).await);
    }

    /// Waits a moment for our account. Returns how long to wait if Telegram did not confirm it.
    pub(crate) async fn wait_until_ready(&self, patience: Duration) -> Result<(), Duration> {
        let rest = || self.queue.paused_until().saturating_duration_since(Instant::now());
        if self.us.borrow().is_some() {
            return Ok(());
        }
        if rest().is_zero() && tokio::time::timeout(patience, self.wait_for_identity()).await.is_ok() {
            return Ok(());
        }
        Err(rest().max(Duration::from_secs(1)))
    }

    /// Looks up our own account. Returns whether events can be handled now.
    pub(crate) async fn learn_identity(&self, client: &TelegramClient, failures: i64) -> bool {
        let found = client.get_me().await.and_then(|account| {
            let name = BotName::parse(&account.username);
            let name = name.ok_or_else(|| TelegramError::Unavailable("the bot has no user name".to_owned()))?;
            Ok((BotIdentity { id: account.id, name }, account))
        });
        match found {
            Ok((us, account)) => {
                tracing::info!(account = us.name.as_str(), "connected to Telegram");
                self.us.send_replace(Some(us));
                self.record_connected(&account, client).await;
                true
            }
            Err(error) => {
                tracing::warn!(%error, "own Telegram account not looked up");
                self.record_failing(&describe_failure(&error)).await;
                let advice = ChatApiError::from(error).retry_advice();
                self.queue.pause_for(retry_delay(advice, failures).unwrap_or(LONGEST_RETRY_DELAY));
                false
            }
        }
    }

    async fn record_connected(&self, account: &BotAccount, client: &TelegramClient) {
        let how = if !self.uses_webhook() {
            "asks for updates"
        } else if client.get_webhook_info().await.is_ok_and(|info| info.url.is_empty()) {
            "but Telegram has no address for the webhook: call `setWebhook`, see docs/telegram.md"
        } else {
            "gets updates by webhook"
        };
        self.is_failing.store(false, Ordering::Relaxed);
        let detail = format!("as @{}, {how}", account.username);
        record_state(&self.conversations, TELEGRAM_PLATFORM, AdapterState::Connected, &detail).await;
    }

    pub(crate) async fn record_failing(&self, detail: &str) {
        self.is_failing.store(true, Ordering::Relaxed);
        record_state(&self.conversations, TELEGRAM_PLATFORM, AdapterState::Failing, detail).await;
    }

    /// Records that Telegram answers again, if it did not.
    pub(crate) async fn record_recovered(&self) {
        if self.is_failing.swap(false, Ordering::Relaxed)
            && let Some(us) = self.identity()
        {
            let detail = format!("as @{}, asks for updates", us.name.as_str());
            record_state(&self.conversations, TELEGRAM_PLATFORM, AdapterState::Connected, &detail).await;
        }
    }

    /// Stops all requests if Telegram does not take our token: the account is looked up again first, with
    /// growing pauses.
    pub(crate) async fn check_token_error(&self, error: &TelegramError) {
        if !matches!(error, TelegramError::BadToken(_)) || self.us.send_replace(None).is_none() {
            return;
        }
        self.queue.pause_for(SignedDuration::try_from(RETRY_BACKOFF.delay_after(0)).unwrap_or(LONGEST_RETRY_DELAY));
        self.record_failing(&describe_failure(error)).await;
    }
}

/// Returns the state to show for an error, with what to do.
pub(crate) fn describe_failure(error: &TelegramError) -> String {
    match error {
        TelegramError::BadToken(_) => {
            format!("{error}. Copy the token from @BotFather to `adapters.telegram.token` and restart the server.")
        }
        TelegramError::Conflict(what) if what.contains("webhook") => {
            "A webhook is set for this bot, so Telegram refuses to be asked for updates. Delete it with \
             `curl https://api.telegram.org/bot<token>/deleteWebhook`, or set `adapters.telegram.webhook_secret`."
                .to_owned()
        }
        TelegramError::Conflict(_) => {
            "Another program asks for the updates of this bot. Stop it, or create another bot for it with @BotFather."
                .to_owned()
        }
        TelegramError::Limited(_) | TelegramError::Unavailable(_) | TelegramError::Refused { .. } => error.to_string(),
    }
}

#[async_trait]
impl Adapter for TelegramAdapter {
    fn name(&self) -> &'static str {
        TELEGRAM_PLATFORM
    }

    async fn run_adapter(self: Arc<Self>, mut ending: watch::Receiver<bool>) {
        let client = match &self.client {
            Ok(client) => client.clone(),
            Err(error) => {
                tracing::error!(%error, "Telegram cannot be used");
                self.record_failing(&describe_failure(error)).await;
                drop(ending.wait_for(|ending| *ending).await);
                return;
            }
        };
        let platform = Arc::new(MessageSender { adapter: self.clone(), client: client.clone() });
        let sending = outbox_sender::run_outbox(self.conversations.clone(), platform, ending.clone());
        let handler = TelegramEventHandler { adapter: &self, client: &client };
        let working = self.queue.run_worker(&handler, ending.clone());
        let polling = async {
            if !self.uses_webhook() {
                run_polling(&self, &client, ending).await;
            }
        };
        tokio::join!(sending, working, polling);
    }
}
