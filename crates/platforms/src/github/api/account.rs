//! Who we are, who others are, and what a repository is.

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::github::api::Github;
use crate::github::api::error::ApiError;
use crate::github::api::send::{escaped, send};
use crate::github::inbound::access::Permission;
use crate::github::inbound::wire::{self, User};
use crate::github::repo::RepoName;

/// The account that we speak with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// `None` for an App that is installed nowhere yet.
    pub user: Option<User>,
    /// What people call: the login, or the App's name.
    pub name: String,
}

impl Github {
    pub async fn whoami(&self) -> Result<Account, ApiError> {
        let root = &self.0.root;
        if !self.is_app() {
            let user: User = send(root, &Method::GET, "/user", None, None).await?.json()?;
            return Ok(Account { name: user.login.clone(), user: Some(user) });
        }
        #[derive(Deserialize)]
        struct App {
            slug: String,
        }
        let app: App = send(root, &Method::GET, "/app", None, None).await?.json()?;
        let user = self.user_called(&format!("{}[bot]", app.slug)).await?;
        Ok(Account { user, name: app.slug })
    }

    /// The account that has a login; `None` if there is none, or for an App that is installed nowhere yet.
    pub async fn user_called(&self, login: &str) -> Result<Option<User>, ApiError> {
        let root = &self.0.root;
        let path = format!("/users/{}", escaped(login));
        let answer = if self.is_app() {
            // The App itself is shown nobody, its installations are.
            let installed = send(root, &Method::GET, "/app/installations?per_page=1", None, None).await?;
            let installed = installed.list::<wire::Id>()?;
            let Some(installation) = installed.first() else { return Ok(None) };
            let client = root.installation(installation.id.into()).map_err(|error| ApiError::broken(&error))?;
            send(&client, &Method::GET, &path, None, None).await
        } else {
            send(root, &Method::GET, &path, None, None).await
        };
        match answer {
            Ok(answer) => answer.json().map(Some),
            Err(ApiError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What somebody may do in a repository. An account that is not known there may do nothing, nor may one
    /// whose login belongs to another account now: GitHub is asked by login.
    pub async fn permission(&self, repo: &RepoName, user: &User) -> Result<Permission, ApiError> {
        #[derive(Deserialize)]
        struct Given {
            permission: String,
            user: Option<wire::Id>,
        }
        let given: Given = match self.get(repo, &format!("/collaborators/{}/permission", escaped(&user.login))).await {
            Ok(answer) => answer.json()?,
            Err(ApiError::NotFound(_)) => return Ok(Permission::Less),
            Err(error) => return Err(error),
        };
        if given.user.is_none_or(|account| account.id != user.id) {
            tracing::warn!("the login {} does not belong to account {} any more", user.login, user.id);
            return Ok(Permission::Less);
        }
        Ok(Permission::parse(&given.permission))
    }

    /// A repository word for word, as a webhook has it.
    pub async fn raw_repository(&self, repo: &RepoName) -> Result<Value, ApiError> {
        self.get(repo, "").await?.json()
    }

    pub(crate) async fn installation_of(&self, repo: &RepoName) -> Result<u64, ApiError> {
        let answer = send(&self.0.root, &Method::GET, &format!("/repos/{repo}/installation"), None, None).await?;
        Ok(answer.json::<wire::Id>()?.id)
    }
}
