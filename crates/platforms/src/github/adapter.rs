//! The GitHub adapter: stores incoming events, turns them into messages, and posts answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use grove_conversations::conversations::Conversations;
use grove_conversations::delivery::event_writer::EventWriter;
use grove_conversations::delivery::outbox_sender;
use grove_environments::settings::{GithubCredentials, GithubSettings, Settings};
use grove_model::Moment;
use secrecy::SecretString;
use tokio::sync::{Notify, watch};

use crate::github::api::{ApiCredentials, ClientSetupError, GithubClient};
use crate::github::inbound::access::{AccessPolicy, ListedAccounts, RepoPermission};
use crate::github::inbound::classify::{BotIdentity, GITHUB_PLATFORM};
use crate::github::inbound::mention::BotName;
use crate::github::inbound::signature::WebhookSecrets;
use crate::github::repo::RepoName;
use crate::github::web_address::GithubWeb;

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
    pub(crate) event_writer: EventWriter,
    /// Notified when a new event was stored.
    pub(crate) new: Arc<Notify>,
    /// Only these repositories are served, and are cloned on first use; if empty, the registered ones are
    /// served.
    pub(crate) repos: Vec<RepoName>,
    pub(crate) web: Option<GithubWeb>,
    /// Without credentials, incoming events are stored and wait.
    pub(crate) github: Option<GithubClient>,
    pub(crate) us: watch::Sender<BotIdentity>,
    /// No request is sent to GitHub until then.
    pub(crate) rest_until: Mutex<Instant>,
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
        let new = Arc::new(Notify::new());
        let wake = new.clone();
        Ok(Some(Arc::new(Self {
            secrets: WebhookSecrets::new(&settings.webhook_secrets),
            event_writer: EventWriter::new(conversations.store.clone(), move || wake.notify_one()),
            us: watch::Sender::new(BotIdentity { name, account: None, is_app }),
            permissions: Mutex::default(),
            accounts: Mutex::default(),
            rest_until: Mutex::new(Instant::now()),
            repos,
            web: GithubWeb::of_api(&settings.api_url),
            conversations: conversations.clone(),
            began: Moment::now(),
            settings,
            new,
            github,
        })))
    }

    /// Runs until `ending` is set.
    pub async fn run_adapter(self: Arc<Self>, ending: watch::Receiver<bool>) {
        let Some(github) = self.github.clone() else {
            tracing::error!("GitHub gets no answers: `adapters.github.token` or an App is missing");
            self.record_state("failing", "`adapters.github.token` or an App is missing").await;
            return;
        };
        let us = self.us.subscribe();
        let platform = Arc::new(crate::github::outbound::comments::CommentSender {
            github: github.clone(),
            update_interval: self.settings.update_interval,
            us,
        });
        let sending = outbox_sender::run_outbox(self.conversations.clone(), platform, ending.clone());
        let working = crate::github::worker::events::run_event_worker(&self, &github, ending.clone());
        let asking = crate::github::worker::poll::run_polling(&self, &github, ending);
        tokio::join!(sending, working, asking);
    }

    /// Records the state of the adapter, for status queries.
    pub(crate) async fn record_state(&self, state: &str, detail: &str) {
        let value = serde_json::json!({ "state": state, "detail": detail }).to_string();
        if let Err(error) = self.conversations.store.set_mark(GITHUB_PLATFORM, "state", &value).await {
            tracing::warn!(state, %error, "adapter state not recorded");
        }
    }

    pub(crate) async fn is_connected(&self, name: &str) {
        let asking = self.settings.poll.map(|every| format!(", asks every {} s", every.as_secs()));
        self.record_state("connected", &format!("as {name}{}", asking.unwrap_or_default())).await;
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
