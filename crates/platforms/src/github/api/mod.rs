//! The GitHub client: one for a token or an App.
//!
//! It does not retry: an error says when a retry makes sense, and the owner of the request retries.
//! Responses are parsed with our own types, which tolerate unknown data.

mod account;
mod comments;
mod error;
mod graphql;
mod pulls;
mod send;
mod standing;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

pub use account::BotAccount;
pub use comments::{PostedComment, RepositoryList};
pub use error::ApiError;
pub use graphql::{LastEdit, LastTitle};
pub use pulls::CreatePullRequest;
pub use send::PollResult;
pub use standing::{
    AppInstallation, AppWebhook, CredentialRights, CredentialStatus, RateLimit, RepositoryWebhook, VisibleRepository,
    WebhookConfig, WebhookLastResponse,
};

use octocrab::Octocrab;
use secrecy::{ExposeSecret, SecretString};

use crate::github::repo::RepoName;

/// The credentials that we use.
#[derive(Clone)]
pub enum ApiCredentials {
    Token(SecretString),
    App { id: u64, private_key: SecretString },
}

#[derive(Debug, thiserror::Error)]
pub enum ClientSetupError {
    #[error("`{0}` is not the address of an API")]
    Address(String),
    #[error("the token has characters that no token has")]
    Token,
    #[error("the App's private key cannot be read: {0}")]
    Key(String),
    #[error("no connection can be prepared: {0}")]
    Client(String),
}

/// A client of GitHub for one account. Cheap to clone.
#[derive(Clone)]
pub struct GithubClient(Arc<GithubClientState>);

/// Shared, because a clone of octocrab's client would lose the token that it got.
type SharedOctocrab = Arc<Octocrab>;

struct GithubClientState {
    /// Authenticates with the token, or as the App itself.
    root: SharedOctocrab,
    /// For GraphQL, if that is not below the root.
    graphql: Option<SharedOctocrab>,
    token: Option<SecretString>,
    /// The App's installations, by repository: each uses its own token.
    installations: Mutex<HashMap<String, InstallationClient>>,
}

#[derive(Clone)]
struct InstallationClient {
    id: u64,
    client: SharedOctocrab,
}

/// The paths of the REST API and of GraphQL on an Enterprise Server.
const ENTERPRISE_API_PATHS: (&str, &str) = ("/api/v3", "/api");

impl GithubClient {
    /// Creates a client. `api_url` is the root of the API, `https://api.github.com`. Must be called inside
    /// the runtime.
    pub fn new(api_url: &str, credentials: &ApiCredentials) -> Result<Self, ClientSetupError> {
        let address = api_url.trim_end_matches('/');
        let known = ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme));
        if !known || address.parse::<http::Uri>().is_err() {
            return Err(ClientSetupError::Address(api_url.to_owned()));
        }
        let root = build_client(address, credentials)?;
        let (rest, graphql) = ENTERPRISE_API_PATHS;
        let graphql = address.strip_suffix(rest).map(|host| build_client(&format!("{host}{graphql}"), credentials));
        let token = match credentials {
            ApiCredentials::Token(token) => Some(token.clone()),
            ApiCredentials::App { .. } => None,
        };
        Ok(Self(Arc::new(GithubClientState {
            root,
            graphql: graphql.transpose()?,
            token,
            installations: Mutex::default(),
        })))
    }

    pub fn is_app(&self) -> bool {
        self.0.token.is_none()
    }

    /// Records which installation sees a repository. A webhook tells that, which saves a request.
    pub fn seen_by(&self, repo: &RepoName, installation: u64) -> Result<(), ApiError> {
        if self.is_app() {
            self.remember_installation(repo, installation)?;
        }
        Ok(())
    }

    fn cached_installation(&self, repo: &RepoName) -> Option<InstallationClient> {
        let all = self.0.installations.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&repo.to_string().to_lowercase()).cloned()
    }

    fn remember_installation(&self, repo: &RepoName, id: u64) -> Result<InstallationClient, ApiError> {
        let mut all = self.0.installations.lock().unwrap_or_else(PoisonError::into_inner);
        // One client for all repositories of an installation: its token is for all of them.
        let known = all.values().find(|known| known.id == id).cloned();
        let installation = match known {
            Some(known) => known,
            None => {
                let client =
                    self.0.root.installation(id.into()).map_err(|error| ApiError::from_broken_connection(&error))?;
                InstallationClient { id, client: Arc::new(client) }
            }
        };
        all.insert(repo.to_string().to_lowercase(), installation.clone());
        Ok(installation)
    }

    /// Returns the App's installation that sees a repository.
    async fn find_installation(&self, repo: &RepoName) -> Result<InstallationClient, ApiError> {
        if let Some(known) = self.cached_installation(repo) {
            return Ok(known);
        }
        let id = self.installation_of(repo).await?;
        self.remember_installation(repo, id)
    }

    /// Returns the REST client that sees a repository.
    async fn rest_client(&self, repo: &RepoName) -> Result<SharedOctocrab, ApiError> {
        Ok(if self.is_app() { self.find_installation(repo).await?.client } else { self.0.root.clone() })
    }

    /// Returns the GraphQL client that sees a repository.
    async fn graphql_client(&self, repo: &RepoName) -> Result<SharedOctocrab, ApiError> {
        let Some(graphql) = &self.0.graphql else { return self.rest_client(repo).await };
        if !self.is_app() {
            return Ok(graphql.clone());
        }
        // Only the REST API issues tokens.
        let token = self.find_installation(repo).await?.fetch_token().await?;
        graphql.user_access_token(token).map(Arc::new).map_err(|error| ApiError::from_broken_connection(&error))
    }

    /// Returns the token that git uses for a repository, valid for at least ten minutes.
    pub async fn git_token(&self, repo: &RepoName) -> Result<SecretString, ApiError> {
        if let Some(token) = &self.0.token {
            return Ok(token.clone());
        }
        self.find_installation(repo).await?.fetch_token().await
    }
}

fn build_client(address: &str, credentials: &ApiCredentials) -> Result<SharedOctocrab, ClientSetupError> {
    let builder = Octocrab::builder().base_uri(address).map_err(|_| ClientSetupError::Address(address.to_owned()))?;
    let builder = match credentials {
        ApiCredentials::Token(token) => {
            let fits = token.expose_secret().bytes().all(|byte| byte.is_ascii_graphic());
            if !fits || token.expose_secret().is_empty() {
                return Err(ClientSetupError::Token);
            }
            builder.personal_token(token.clone())
        }
        ApiCredentials::App { id, private_key } => builder
            .app_from_rsa_pem((*id).into(), private_key.expose_secret())
            .map_err(|error| ClientSetupError::Key(error.to_string()))?,
    };
    builder.build().map(Arc::new).map_err(|error| ClientSetupError::Client(error.to_string()))
}

impl std::fmt::Debug for GithubClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_app() { "Github(app)" } else { "Github(token)" })
    }
}
