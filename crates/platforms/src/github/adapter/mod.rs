//! GitHub at work: what it tells is kept, read, and becomes a message; what is said goes there.

mod ask;
mod background;
mod door;
mod edits;
mod gather;
mod permissions;
mod place;
mod pulls;
mod show;
mod translate;
mod work;

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

use super::access::{Access, ListedAccounts, Permission};
use super::api::{Credentials, Github, SetupError};
use super::mention::BotName;
use super::repo::RepoName;
use super::translate::{GITHUB, Us};
use super::verify::Secrets;
use super::web::Web;

pub use door::{Knock, Refused, SignedDelivery};

/// How long what somebody may do is believed.
const BELIEVED: Duration = Duration::from_secs(60);

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
    talks: Arc<Talks>,
    began: Moment,
    settings: GithubSettings,
    secrets: Secrets,
    letterbox: Letterbox,
    /// Something new was kept.
    new: Arc<Notify>,
    access: Access,
    /// Only these are worked for, and are cloned when they are heard of; empty: those that are
    /// registered.
    repos: Vec<RepoName>,
    web: Option<Web>,
    /// Without credentials what comes in is kept, and waits.
    github: Option<Github>,
    us: watch::Sender<Us>,
    /// GitHub is left alone until then.
    rest_until: Mutex<Instant>,
    /// What somebody may do in a repository, and when that was asked.
    permissions: Mutex<HashMap<(String, u64), (Permission, Instant)>>,
    /// The accounts of listed logins that are known.
    accounts: Mutex<ListedAccounts>,
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
        let platform = Arc::new(show::Comments { github: github.clone(), streams: self.settings.streams, us });
        let sending = outbox_sender::serve(self.talks.clone(), platform, ending.clone());
        let working = work::serve(&self, &github, ending.clone());
        let asking = ask::serve(&self, &github, ending);
        tokio::join!(sending, working, asking);
    }

    /// Notes how things stand, for whoever asks.
    async fn is(&self, state: &str, detail: &str) {
        let value = serde_json::json!({ "state": state, "detail": detail }).to_string();
        if let Err(error) = self.talks.store.set_mark(GITHUB, "state", &value).await {
            tracing::warn!("how GitHub is could not be noted: {error}");
        }
    }

    async fn is_connected(&self, name: &str) {
        let asking = self.settings.poll.map(|every| format!(", asks every {} s", every.as_secs()));
        self.is("connected", &format!("as {name}{}", asking.unwrap_or_default())).await;
    }

    fn us(&self) -> Us {
        self.us.borrow().clone()
    }
}

pub(super) fn client(settings: &GithubSettings, credentials: &GithubCredentials) -> Result<Github, BadSettings> {
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
