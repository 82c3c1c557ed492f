//! How we stand with GitHub: what our credentials are good for, and what it tells us.

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;

use crate::github::api::Github;
use crate::github::api::error::ApiError;
use crate::github::api::send::{Answer, send};
use crate::github::inbound::wire::User;
use crate::github::repo::RepoName;

/// What our credentials are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The login, or the App's name.
    pub name: String,
    pub rights: Rights,
    /// When the token runs out, in GitHub's words.
    pub until: Option<String>,
    pub left: Option<Left>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rights {
    /// A classic token names what it may do.
    Scopes(Vec<String>),
    /// Any other token does not.
    Untold,
    App {
        permissions: BTreeMap<String, String>,
        events: Vec<String>,
        installed: Vec<Installed>,
    },
}

/// What is left of an hour's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    pub requests: u64,
    pub of: u64,
    /// When there are new ones, in seconds since 1970.
    pub reset: i64,
}

/// Where an App is installed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Installed {
    #[serde(default)]
    pub account: Option<Owner>,
    /// What was given to it there, which may be less than it wants.
    #[serde(default)]
    pub permissions: BTreeMap<String, String>,
    #[serde(default)]
    pub suspended_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Owner {
    #[serde(default)]
    pub login: String,
}

/// A repository, as it is shown to us.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Seen {
    pub full_name: String,
    #[serde(default)]
    pub archived: bool,
    /// What the account may do there; means nothing for an App.
    #[serde(default)]
    pub permissions: Option<May>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct May {
    #[serde(default)]
    pub push: bool,
}

/// A webhook of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Hook {
    #[serde(default)]
    pub active: bool,
    #[serde(default)]
    pub events: Vec<String>,
    #[serde(default)]
    pub config: HookConfig,
    #[serde(default)]
    pub last_response: LastResponse,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct HookConfig {
    pub url: Option<String>,
    /// Never itself: stars, if there is one.
    pub secret: Option<String>,
}

/// What GitHub was answered the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct LastResponse {
    /// `None`: nothing was sent yet.
    pub code: Option<u16>,
    pub message: Option<String>,
}

/// The webhook of an App, for all repositories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppHook {
    pub config: HookConfig,
    pub last_response: LastResponse,
}

impl Github {
    pub async fn standing(&self) -> Result<Standing, ApiError> {
        let root = &self.0.root;
        if !self.is_app() {
            let answer = send(root, &Method::GET, "/user", None, None).await?;
            let name = answer.json::<User>()?.login;
            let scopes = answer.header("x-oauth-scopes").map(|scopes| scopes.split(',').map(str::trim));
            let scopes = scopes.map(|scopes| scopes.filter(|scope| !scope.is_empty()).map(str::to_owned).collect());
            let until = answer.header("github-authentication-token-expiration").map(str::to_owned);
            return Ok(Standing {
                name,
                rights: scopes.map_or(Rights::Untold, Rights::Scopes),
                until,
                left: left(&answer),
            });
        }
        #[derive(Deserialize)]
        struct App {
            slug: String,
            #[serde(default)]
            permissions: BTreeMap<String, String>,
            #[serde(default)]
            events: Vec<String>,
        }
        let answer = send(root, &Method::GET, "/app", None, None).await?;
        let app: App = answer.json()?;
        let installed = send(root, &Method::GET, "/app/installations?per_page=100", None, None).await?.list()?;
        let rights = Rights::App { permissions: app.permissions, events: app.events, installed };
        Ok(Standing { name: app.slug, rights, until: None, left: left(&answer) })
    }

    /// A repository, wherever it was moved to.
    pub async fn seen_as(&self, repo: &RepoName) -> Result<Seen, ApiError> {
        self.get(repo, "").await?.json()
    }

    /// The App's installation that sees a repository.
    pub async fn installed_at(&self, repo: &RepoName) -> Result<Installed, ApiError> {
        send(&self.0.root, &Method::GET, &format!("/repos/{repo}/installation"), None, None).await?.json()
    }

    /// The webhooks of a repository, which few may look at.
    pub async fn hooks(&self, repo: &RepoName) -> Result<Vec<Hook>, ApiError> {
        self.get(repo, "/hooks?per_page=100").await?.list()
    }

    pub async fn app_hook(&self) -> Result<AppHook, ApiError> {
        #[derive(Deserialize)]
        struct Delivery {
            status_code: Option<u16>,
            status: Option<String>,
        }
        let root = &self.0.root;
        let config = send(root, &Method::GET, "/app/hook/config", None, None).await?.json()?;
        let last: Vec<Delivery> =
            send(root, &Method::GET, "/app/hook/deliveries?per_page=1", None, None).await?.list()?;
        let last = last.into_iter().next().map(|last| LastResponse { code: last.status_code, message: last.status });
        Ok(AppHook { config, last_response: last.unwrap_or_default() })
    }
}

fn left(answer: &Answer) -> Option<Left> {
    let number = |name: &str| answer.header(name).and_then(|value| value.trim().parse::<u64>().ok());
    let reset = number("x-ratelimit-reset").and_then(|reset| i64::try_from(reset).ok())?;
    Some(Left { requests: number("x-ratelimit-remaining")?, of: number("x-ratelimit-limit")?, reset })
}
