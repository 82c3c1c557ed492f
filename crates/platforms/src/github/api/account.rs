//! Who we are, who others are, and what a repository is.

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::send::{escaped, send};
use super::{ApiError, Github};
use crate::github::access::Permission;
use crate::github::repo::RepoName;
use crate::github::wire::{self, User};

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
        let installed = send(root, &Method::GET, "/app/installations?per_page=1", None, None).await?;
        let user = match installed.list::<wire::Id>()?.first() {
            // The App itself is shown nobody, its installations are.
            Some(installation) => {
                let client = root.installation(installation.id.into()).map_err(|error| ApiError::broken(&error))?;
                let path = format!("/users/{}", escaped(&format!("{}[bot]", app.slug)));
                Some(send(&client, &Method::GET, &path, None, None).await?.json()?)
            }
            None => None,
        };
        Ok(Account { user, name: app.slug })
    }

    /// What somebody may do in a repository. Who is not known there may do nothing.
    pub async fn permission(&self, repo: &RepoName, login: &str) -> Result<Permission, ApiError> {
        #[derive(Deserialize)]
        struct Given {
            permission: String,
        }
        match self.get(repo, &format!("/collaborators/{}/permission", escaped(login))).await {
            Ok(answer) => Ok(Permission::parse(&answer.json::<Given>()?.permission)),
            Err(ApiError::NotFound(_)) => Ok(Permission::Less),
            Err(error) => Err(error),
        }
    }

    /// A repository word for word, as a webhook has it.
    pub async fn raw_repository(&self, repo: &RepoName) -> Result<Value, ApiError> {
        self.get(repo, "").await?.json()
    }

    pub(super) async fn installation_of(&self, repo: &RepoName) -> Result<u64, ApiError> {
        let answer = send(&self.0.root, &Method::GET, &format!("/repos/{repo}/installation"), None, None).await?;
        Ok(answer.json::<wire::Id>()?.id)
    }
}
