//! The GitHub adapter: stores incoming events, turns them into messages, and posts answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use grove_conversations::conversations::Conversations;
use grove_conversations::delivery::outbox_sender;
use grove_environments::settings::{GithubCredentials, GithubSettings, Settings};
use grove_model::Moment;
use secrecy::SecretString;
use tokio::sync::watch;

use crate::adapter::{Adapter, AdapterState, record_state};
use crate::event_queue::EventQueue;
use crate::github::api::{ApiCredentials, ClientSetupError, GithubClient};
use crate::github::inbound::access::{AccessPolicy, ListedAccounts, RepoPermission};
use crate::github::inbound::classify::{BotIdentity, GITHUB_PLATFORM};
use crate::github::inbound::signature::WebhookSecrets;
use crate::github::outbound::comments::CommentSender;
use crate::github::repo::RepoName;
use crate::github::web_address::GithubWeb;
use crate::github::worker::events::GithubEventHandler;
use crate::github::worker::poll::run_polling;
use crate::mention::BotName;

/// The time that a permission of a user is cached.
pub(crate) const PERMISSION_CACHE_DURATION: Duration = Duration::from_secs(60);

/// The reason why the GitHub settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GithubSettingsError {
    #[error("`adapters.github.bot_name` is no name that can be mentioned: {0}")]
    BotName(String),
    #[error("the App's private key {path} cannot be read: {why}")]
    KeyFile { path: String, why: String },
    #[error("`{0}` in `adapters.github.repos` is not the name of a repository, such as `owner/name`")]
    Repository(String),
    #[error("`adapters.github.token` or an App is missing")]
    NoCredentials,
    #[error("`adapters.github` cannot be used: {0}")]
    Setup(#[from] ClientSetupError),
}

/// The adapter.
pub struct GithubAdapter {
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) began: Moment,
    pub(crate) settings: GithubSettings,
    pub(crate) secrets: WebhookSecrets,
    pub(crate) queue: EventQueue,
    /// Only these repositories are served, and are cloned on first use; if empty, the registered ones are
    /// served.
    pub(crate) repos: Vec<RepoName>,
    pub(crate) web: Option<GithubWeb>,
    /// Without credentials, incoming events are stored and wait.
    pub(crate) github: Option<GithubClient>,
    pub(crate) us: watch::Sender<BotIdentity>,
    /// The permission of a user in a repository, and when it was looked up.
    pub(crate) permissions: Mutex<HashMap<(String, u64), (RepoPermission, Instant)>>,
    /// The known accounts of the listed logins.
    pub(crate) accounts: Mutex<ListedAccounts>,
}

impl GithubAdapter {
    /// Creates the adapter; `None` if GitHub is not configured.
    pub fn new(
        conversations: &Arc<Conversations>,
        settings: &Settings,
    ) -> Result<Option<Arc<Self>>, GithubSettingsError> {
        let settings = settings.github_settings();
        if settings.webhook_secrets.is_empty() && settings.poll.is_none() {
            return Ok(None);
        }
        let name = BotName::parse(&settings.bot_name).ok_or(GithubSettingsError::BotName(settings.bot_name.clone()))?;
        let repo = |name: &String| RepoName::parse(name).ok_or_else(|| GithubSettingsError::Repository(name.clone()));
        let repos = settings.repos.iter().map(repo).collect::<Result<_, _>>()?;
        let github =
            settings.credentials.as_ref().map(|credentials| build_github_client(&settings, credentials)).transpose()?;
        let is_app = github.as_ref().is_some_and(GithubClient::is_app);
        Ok(Some(Arc::new(Self {
            secrets: WebhookSecrets::new(&settings.webhook_secrets),
            queue: EventQueue::new(GITHUB_PLATFORM, conversations),
            us: watch::Sender::new(BotIdentity { name, account: None, is_app }),
            permissions: Mutex::default(),
            accounts: Mutex::default(),
            repos,
            web: GithubWeb::of_api(&settings.api_url),
            conversations: conversations.clone(),
            began: Moment::now(),
            settings,
            github,
        })))
    }

    pub(crate) async fn record_state(&self, state: AdapterState, detail: &str) {
        record_state(&self.conversations, GITHUB_PLATFORM, state, detail).await;
    }

    pub(crate) async fn is_connected(&self, name: &str) {
        let asking = self.settings.poll.map(|every| format!(", asks every {} s", every.as_secs()));
        self.record_state(AdapterState::Connected, &format!("as {name}{}", asking.unwrap_or_default())).await;
    }

    /// Returns the configured access. The lists of users may change while the server runs.
    pub(crate) fn access_policy(&self) -> AccessPolicy {
        let settings = self.conversations.settings.current().github_settings();
        AccessPolicy::new(&settings.allowed_users, settings.allow_all)
    }

    pub(crate) fn bot_identity(&self) -> BotIdentity {
        self.us.borrow().clone()
    }
}

#[async_trait]
impl Adapter for GithubAdapter {
    fn name(&self) -> &'static str {
        GITHUB_PLATFORM
    }

    async fn run_adapter(self: Arc<Self>, ending: watch::Receiver<bool>) {
        let Some(github) = self.github.clone() else {
            tracing::error!("GitHub gets no answers: `adapters.github.token` or an App is missing");
            return self.record_state(AdapterState::Failing, "`adapters.github.token` or an App is missing").await;
        };
        let us = self.us.subscribe();
        let update_interval = self.settings.update_interval;
        let platform = Arc::new(CommentSender { github: github.clone(), update_interval, us });
        let sending = outbox_sender::run_outbox(self.conversations.clone(), platform, ending.clone());
        let handler = GithubEventHandler { adapter: &self, github: &github };
        let working = self.queue.run_worker(&handler, ending.clone());
        let asking = run_polling(&self, &github, ending);
        tokio::join!(sending, working, asking);
    }
}

pub(crate) fn build_github_client(
    settings: &GithubSettings,
    credentials: &GithubCredentials,
) -> Result<GithubClient, GithubSettingsError> {
    let credentials = match credentials {
        GithubCredentials::Token(token) => ApiCredentials::Token(SecretString::from(token.clone())),
        GithubCredentials::App { id, private_key_file } => {
            let key = std::fs::read_to_string(private_key_file).map_err(|error| GithubSettingsError::KeyFile {
                path: private_key_file.display().to_string(),
                why: error.to_string(),
            })?;
            ApiCredentials::App { id: *id, private_key: SecretString::from(key) }
        }
    };
    Ok(GithubClient::new(&settings.api_url, &credentials)?)
}
