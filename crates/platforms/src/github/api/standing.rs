//! The status of our credentials, installations and webhooks at GitHub.

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;

use crate::github::api::GithubClient;
use crate::github::api::error::ApiError;
use crate::github::api::send::{ApiResponse, send_api_request};
use crate::github::inbound::wire::GithubUser;
use crate::github::repo::RepoName;

/// The status of our credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialStatus {
    /// The login, or the App's name.
    pub name: String,
    pub rights: CredentialRights,
    /// The expiry of the token, as GitHub writes it.
    pub until: Option<String>,
    pub left: Option<RateLimit>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialRights {
    /// The scopes of a classic token.
    Scopes(Vec<String>),
    /// Any other token does not tell its permissions.
    Untold,
    App {
        permissions: BTreeMap<String, String>,
        events: Vec<String>,
        installed: Vec<AppInstallation>,
    },
}

/// The remaining requests of this hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    pub requests: u64,
    pub of: u64,
    /// The time of the next reset, in seconds since 1970.
    pub reset: i64,
}

/// An installation of an App.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AppInstallation {
    #[serde(default)]
    pub account: Option<InstallationOwner>,
    /// The granted permissions, which may be fewer than the App requests.
    #[serde(default)]
    pub permissions: BTreeMap<String, String>,
    #[serde(default)]
    pub suspended_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct InstallationOwner {
    #[serde(default)]
    pub login: String,
}

/// A repository as we see it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VisibleRepository {
    pub full_name: String,
    #[serde(default)]
    pub archived: bool,
    /// The permissions of the account; meaningless for an App.
    #[serde(default)]
    pub permissions: Option<RepositoryRights>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct RepositoryRights {
    #[serde(default)]
    pub push: bool,
}

/// A webhook of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct RepositoryWebhook {
    #[serde(default)]
    pub active: bool,
    #[serde(default)]
    pub events: Vec<String>,
    #[serde(default)]
    pub config: WebhookConfig,
    #[serde(default)]
    pub last_response: WebhookLastResponse,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct WebhookConfig {
    pub url: Option<String>,
    /// Never the secret itself: asterisks, if there is one.
    pub secret: Option<String>,
}

/// The last response that GitHub got from the webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct WebhookLastResponse {
    /// `None` if nothing was sent yet.
    pub code: Option<u16>,
    pub message: Option<String>,
}

/// The webhook of an App, for all repositories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppWebhook {
    pub config: WebhookConfig,
    pub last_response: WebhookLastResponse,
}

impl GithubClient {
    pub async fn credential_status(&self) -> Result<CredentialStatus, ApiError> {
        let root = &self.0.root;
        if !self.is_app() {
            let answer = send_api_request(root, &Method::GET, "/user", None, None).await?;
            let name = answer.parse_json::<GithubUser>()?.login;
            let scopes = answer.header_value("x-oauth-scopes").map(|scopes| scopes.split(',').map(str::trim));
            let scopes = scopes.map(|scopes| scopes.filter(|scope| !scope.is_empty()).map(str::to_owned).collect());
            let until = answer.header_value("github-authentication-token-expiration").map(str::to_owned);
            return Ok(CredentialStatus {
                name,
                rights: scopes.map_or(CredentialRights::Untold, CredentialRights::Scopes),
                until,
                left: parse_rate_limit(&answer),
            });
        }
        #[derive(Deserialize)]
        struct AppInfo {
            slug: String,
            #[serde(default)]
            permissions: BTreeMap<String, String>,
            #[serde(default)]
            events: Vec<String>,
        }
        let answer = send_api_request(root, &Method::GET, "/app", None, None).await?;
        let app: AppInfo = answer.parse_json()?;
        let installed =
            send_api_request(root, &Method::GET, "/app/installations?per_page=100", None, None).await?.parse_list()?;
        let rights = CredentialRights::App { permissions: app.permissions, events: app.events, installed };
        Ok(CredentialStatus { name: app.slug, rights, until: None, left: parse_rate_limit(&answer) })
    }

    /// Returns a repository, wherever it was moved to.
    pub async fn seen_as(&self, repo: &RepoName) -> Result<VisibleRepository, ApiError> {
        self.get(repo, "").await?.parse_json()
    }

    /// Returns the App's installation that sees a repository.
    pub async fn installed_at(&self, repo: &RepoName) -> Result<AppInstallation, ApiError> {
        send_api_request(&self.0.root, &Method::GET, &format!("/repos/{repo}/installation"), None, None)
            .await?
            .parse_json()
    }

    /// Returns the webhooks of a repository, which only few accounts may read.
    pub async fn list_webhooks(&self, repo: &RepoName) -> Result<Vec<RepositoryWebhook>, ApiError> {
        self.get(repo, "/hooks?per_page=100").await?.parse_list()
    }

    pub async fn app_hook(&self) -> Result<AppWebhook, ApiError> {
        #[derive(Deserialize)]
        struct AppHookDelivery {
            status_code: Option<u16>,
            status: Option<String>,
        }
        let root = &self.0.root;
        let config = send_api_request(root, &Method::GET, "/app/hook/config", None, None).await?.parse_json()?;
        let last: Vec<AppHookDelivery> =
            send_api_request(root, &Method::GET, "/app/hook/deliveries?per_page=1", None, None).await?.parse_list()?;
        let last =
            last.into_iter().next().map(|last| WebhookLastResponse { code: last.status_code, message: last.status });
        Ok(AppWebhook { config, last_response: last.unwrap_or_default() })
    }
}

fn parse_rate_limit(answer: &ApiResponse) -> Option<RateLimit> {
    let number = |name: &str| answer.header_value(name).and_then(|value| value.trim().parse::<u64>().ok());
    let reset = number("x-ratelimit-reset").and_then(|reset| i64::try_from(reset).ok())?;
    Some(RateLimit { requests: number("x-ratelimit-remaining")?, of: number("x-ratelimit-limit")?, reset })
}
