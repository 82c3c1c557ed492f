//! The way to GitHub: one client for a token or an App.
//!
//! Nothing is tried again here: an error says when that makes sense, and whoever keeps what is to be
//! said does it. Answers are read with our own types, which take what they do not know.

mod account;
mod comments;
mod error;
mod graphql;
mod pulls;
mod send;
mod standing;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

pub use account::Account;
pub use comments::{List, Spoken};
pub use error::{ApiError, Retry};
pub use graphql::{LastEdit, LastTitle};
pub use pulls::NewPull;
pub use send::Polled;
pub use standing::{AppHook, Hook, HookConfig, Installed, LastResponse, Left, Rights, Seen, Standing};

use octocrab::Octocrab;
use secrecy::{ExposeSecret, SecretString};

use crate::github::repo::RepoName;

/// What we show to GitHub.
#[derive(Clone)]
pub enum Credentials {
    Token(SecretString),
    App { id: u64, private_key: SecretString },
}

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("`{0}` is not the address of an API")]
    Address(String),
    #[error("the token has characters that no token has")]
    Token,
    #[error("the App's private key cannot be read: {0}")]
    Key(String),
    #[error("no connection can be prepared: {0}")]
    Client(String),
}

/// GitHub, as one account sees it. Cheap to clone.
#[derive(Clone)]
pub struct Github(Arc<Inner>);

/// A clone of octocrab's would forget the token that it got: one is shared instead.
type Client = Arc<Octocrab>;

struct Inner {
    /// Shows the token, or the App itself.
    root: Client,
    /// For GraphQL, where that is not below the root.
    graphql: Option<Client>,
    token: Option<SecretString>,
    /// The App's installations, by repository: each shows a token of its own.
    installations: Mutex<HashMap<String, Installation>>,
}

#[derive(Clone)]
struct Installation {
    id: u64,
    client: Client,
}

/// Where an Enterprise Server has its REST API, and where its GraphQL is.
const ENTERPRISE: (&str, &str) = ("/api/v3", "/api");

impl Github {
    /// `api_url` is the root of the API, `https://api.github.com`. To be called inside the runtime.
    pub fn new(api_url: &str, credentials: &Credentials) -> Result<Self, SetupError> {
        let address = api_url.trim_end_matches('/');
        let known = ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme));
        if !known || address.parse::<http::Uri>().is_err() {
            return Err(SetupError::Address(api_url.to_owned()));
        }
        let root = client(address, credentials)?;
        let (rest, graphql) = ENTERPRISE;
        let graphql = address.strip_suffix(rest).map(|host| client(&format!("{host}{graphql}"), credentials));
        let token = match credentials {
            Credentials::Token(token) => Some(token.clone()),
            Credentials::App { .. } => None,
        };
        Ok(Self(Arc::new(Inner { root, graphql: graphql.transpose()?, token, installations: Mutex::default() })))
    }

    pub fn is_app(&self) -> bool {
        self.0.token.is_none()
    }

    /// A webhook tells which installation sees a repository, so that nobody has to ask.
    pub fn seen_by(&self, repo: &RepoName, installation: u64) -> Result<(), ApiError> {
        if self.is_app() {
            self.remember(repo, installation)?;
        }
        Ok(())
    }

    fn known(&self, repo: &RepoName) -> Option<Installation> {
        let all = self.0.installations.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&repo.to_string().to_lowercase()).cloned()
    }

    fn remember(&self, repo: &RepoName, id: u64) -> Result<Installation, ApiError> {
        let mut all = self.0.installations.lock().unwrap_or_else(PoisonError::into_inner);
        // One for all repositories of an installation: its token is for all of them.
        let known = all.values().find(|known| known.id == id).cloned();
        let installation = match known {
            Some(known) => known,
            None => {
                let client = self.0.root.installation(id.into()).map_err(|error| ApiError::broken(&error))?;
                Installation { id, client: Arc::new(client) }
            }
        };
        all.insert(repo.to_string().to_lowercase(), installation.clone());
        Ok(installation)
    }

    /// The installation of the App that sees a repository.
    async fn installation(&self, repo: &RepoName) -> Result<Installation, ApiError> {
        if let Some(known) = self.known(repo) {
            return Ok(known);
        }
        let id = self.installation_of(repo).await?;
        self.remember(repo, id)
    }

    /// The client that sees a repository.
    async fn rest(&self, repo: &RepoName) -> Result<Client, ApiError> {
        Ok(if self.is_app() { self.installation(repo).await?.client } else { self.0.root.clone() })
    }

    /// The same for GraphQL.
    async fn graphql_client(&self, repo: &RepoName) -> Result<Client, ApiError> {
        let Some(graphql) = &self.0.graphql else { return self.rest(repo).await };
        if !self.is_app() {
            return Ok(graphql.clone());
        }
        // Tokens are given by the REST API only.
        let token = self.installation(repo).await?.token().await?;
        graphql.user_access_token(token).map(Arc::new).map_err(|error| ApiError::broken(&error))
    }

    /// The token that git shows for a repository, good for ten minutes at least.
    pub async fn git_token(&self, repo: &RepoName) -> Result<SecretString, ApiError> {
        if let Some(token) = &self.0.token {
            return Ok(token.clone());
        }
        self.installation(repo).await?.token().await
    }
}

fn client(address: &str, credentials: &Credentials) -> Result<Client, SetupError> {
    let builder = Octocrab::builder().base_uri(address).map_err(|_| SetupError::Address(address.to_owned()))?;
    let builder = match credentials {
        Credentials::Token(token) => {
            let fits = token.expose_secret().bytes().all(|byte| byte.is_ascii_graphic());
            if !fits || token.expose_secret().is_empty() {
                return Err(SetupError::Token);
            }
            builder.personal_token(token.clone())
        }
        Credentials::App { id, private_key } => builder
            .app_from_rsa_pem((*id).into(), private_key.expose_secret())
            .map_err(|error| SetupError::Key(error.to_string()))?,
    };
    builder.build().map(Arc::new).map_err(|error| SetupError::Client(error.to_string()))
}

impl std::fmt::Debug for Github {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_app() { "Github(app)" } else { "Github(token)" })
    }
}
