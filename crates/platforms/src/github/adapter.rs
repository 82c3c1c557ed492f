//! GitHub at work: what it tells is kept, read, and becomes a message; what is said goes there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use grove_conversations::conversations::Talks;
use grove_conversations::delivery::event_writer::Letterbox;
use grove_conversations::delivery::outbox_sender;
use grove_environments::settings::{GithubCredentials, GithubSettings, Settings};
use grove_model::Moment;
use secrecy::SecretString;
use tokio::sync::{Notify, watch};

use crate::github::api::{Credentials, Github, SetupError};
use crate::github::inbound::access::{Access, ListedAccounts, Permission};
use crate::github::inbound::classify::{GITHUB, Us};
use crate::github::inbound::mention::BotName;
use crate::github::inbound::signature::Secrets;
use crate::github::repo::RepoName;
use crate::github::web_address::Web;

/// How long what somebody may do is believed.
pub(crate) const BELIEVED: Duration = Duration::from_secs(60);

/// Why GitHub cannot be spoken to as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum BadSettings {
    #[error("`adapters.github.bot_name` is no name that can be mentioned: {0}")]
    BotName(String),
    #[error("the App's private key {path} cannot be read: {why}")]
    KeyFile { path: String, why: String },
    #[error("`{0}` in `adapters.github.repos` is not the name of a repository, such as `owner/name`")]
    Repository(String),
    #[error("`adapters.github.token` or an App is missing")]
    NoCredentials,
    #[error("`adapters.github` cannot be used: {0}")]
    Setup(#[from] SetupError),
}

/// The adapter.
pub struct Adapter {
    pub(crate) talks: Arc<Talks>,
    pub(crate) began: Moment,
    pub(crate) settings: GithubSettings,
    pub(crate) secrets: Secrets,
    pub(crate) letterbox: Letterbox,
    /// Something new was kept.
    pub(crate) new: Arc<Notify>,
    pub(crate) access: Access,
    /// Only these are worked for, and are cloned when they are heard of; empty: those that are
    /// registered.
    pub(crate) repos: Vec<RepoName>,
    pub(crate) web: Option<Web>,
    /// Without credentials what comes in is kept, and waits.
    pub(crate) github: Option<Github>,
    pub(crate) us: watch::Sender<Us>,
    /// GitHub is left alone until then.
    pub(crate) rest_until: Mutex<Instant>,
    /// What somebody may do in a repository, and when that was asked.
    pub(crate) permissions: Mutex<HashMap<(String, u64), (Permission, Instant)>>,
    /// The accounts of listed logins that are known.
    pub(crate) accounts: Mutex<ListedAccounts>,
}

impl Adapter {
    /// `None`: nothing is configured.
    pub fn new(talks: &Arc<Talks>, settings: &Settings) -> Result<Option<Arc<Self>>, BadSettings> {
        let settings = settings.github();
        if settings.webhook_secrets.is_empty() && settings.poll.is_none() {
            return Ok(None);
        }
        let name = BotName::parse(&settings.bot_name).ok_or(BadSettings::BotName(settings.bot_name.clone()))?;
        let repo = |name: &String| RepoName::parse(name).ok_or_else(|| BadSettings::Repository(name.clone()));
        let repos = settings.repos.iter().map(repo).collect::<Result<_, _>>()?;
        let github = settings.credentials.as_ref().map(|credentials| client(&settings, credentials)).transpose()?;
        let is_app = github.as_ref().is_some_and(Github::is_app);
        let new = Arc::new(Notify::new());
        let wake = new.clone();
        Ok(Some(Arc::new(Self {
            secrets: Secrets::new(&settings.webhook_secrets),
            letterbox: Letterbox::new(talks.store.clone(), move || wake.notify_one()),
            access: Access::new(&settings.allowed_users, settings.allow_all),
            us: watch::Sender::new(Us { name, account: None, is_app }),
            permissions: Mutex::default(),
            accounts: Mutex::default(),
            rest_until: Mutex::new(Instant::now()),
            repos,
            web: Web::of_api(&settings.api_url),
            talks: talks.clone(),
            began: Moment::now(),
            settings,
            new,
            github,
        })))
    }

    /// Works until `ending` says so.
    pub async fn serve(self: Arc<Self>, ending: watch::Receiver<bool>) {
        let Some(github) = self.github.clone() else {
            tracing::error!("GitHub is not answered: `adapters.github.token` or an App is missing");
            self.is("failing", "`adapters.github.token` or an App is missing").await;
            return;
        };
        let us = self.us.subscribe();
        let platform = Arc::new(crate::github::outbound::comments::Comments {
            github: github.clone(),
            streams: self.settings.streams,
            us,
        });
        let sending = outbox_sender::serve(self.talks.clone(), platform, ending.clone());
        let working = crate::github::worker::events::serve(&self, &github, ending.clone());
        let asking = crate::github::worker::poll::serve(&self, &github, ending);
        tokio::join!(sending, working, asking);
    }

    /// Notes how things stand, for whoever asks.
    pub(crate) async fn is(&self, state: &str, detail: &str) {
        let value = serde_json::json!({ "state": state, "detail": detail }).to_string();
        if let Err(error) = self.talks.store.set_mark(GITHUB, "state", &value).await {
            tracing::warn!("how GitHub is could not be noted: {error}");
        }
    }

    pub(crate) async fn is_connected(&self, name: &str) {
        let asking = self.settings.poll.map(|every| format!(", asks every {} s", every.as_secs()));
        self.is("connected", &format!("as {name}{}", asking.unwrap_or_default())).await;
    }

    pub(crate) fn us(&self) -> Us {
        self.us.borrow().clone()
    }
}

pub(crate) fn client(settings: &GithubSettings, credentials: &GithubCredentials) -> Result<Github, BadSettings> {
    let credentials = match credentials {
        GithubCredentials::Token(token) => Credentials::Token(SecretString::from(token.clone())),
        GithubCredentials::App { id, private_key_file } => {
            let key = std::fs::read_to_string(private_key_file).map_err(|error| BadSettings::KeyFile {
                path: private_key_file.display().to_string(),
                why: error.to_string(),
            })?;
            Credentials::App { id: *id, private_key: SecretString::from(key) }
        }
    };
    Ok(Github::new(&settings.api_url, &credentials)?)
}
