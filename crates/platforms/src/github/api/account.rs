//! Our own account, other accounts, and repositories.

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::github::api::GithubClient;
use crate::github::api::error::ApiError;
use crate::github::api::send::{escape_path_part, send_api_request};
use crate::github::inbound::access::RepoPermission;
use crate::github::inbound::wire::{self, GithubUser};
use crate::github::repo::RepoName;

/// The account that we use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotAccount {
    /// `None` for an App that is not installed anywhere yet.
    pub user: Option<GithubUser>,
    /// The name that people mention: the login, or the App's name.
    pub name: String,
}

impl GithubClient {
    pub async fn current_account(&self) -> Result<BotAccount, ApiError> {
        let root = &self.0.root;
        if !self.is_app() {
            let user: GithubUser = send_api_request(root, &Method::GET, "/user", None, None).await?.parse_json()?;
            return Ok(BotAccount { name: user.login.clone(), user: Some(user) });
        }
        #[derive(Deserialize)]
        struct AppSlug {
            slug: String,
        }
        let app: AppSlug = send_api_request(root, &Method::GET, "/app", None, None).await?.parse_json()?;
        let user = self.user_called(&format!("{}[bot]", app.slug)).await?;
        Ok(BotAccount { user, name: app.slug })
    }

    /// Returns the account with a login; `None` if there is none, or for an App that is not installed
    /// anywhere yet.
    pub async fn user_called(&self, login: &str) -> Result<Option<GithubUser>, ApiError> {
        let root = &self.0.root;
        let path = format!("/users/{}", escape_path_part(login));
        let answer = if self.is_app() {
            // The App itself may not look up users; its installations may.
            let installed = send_api_request(root, &Method::GET, "/app/installations?per_page=1", None, None).await?;
            let installed = installed.parse_list::<wire::IdPayload>()?;
            let Some(installation) = installed.first() else { return Ok(None) };
            let client =
                root.installation(installation.id.into()).map_err(|error| ApiError::from_broken_connection(&error))?;
            send_api_request(&client, &Method::GET, &path, None, None).await
        } else {
            send_api_request(root, &Method::GET, &path, None, None).await
        };
        match answer {
            Ok(answer) => answer.parse_json().map(Some),
            Err(ApiError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the permission of a user in a repository. An unknown account has none, nor has one whose
    /// login now belongs to another account: GitHub looks users up by login.
    pub async fn user_permission(&self, repo: &RepoName, user: &GithubUser) -> Result<RepoPermission, ApiError> {
        #[derive(Deserialize)]
        struct PermissionResponse {
            permission: String,
            user: Option<wire::IdPayload>,
        }
        let given: PermissionResponse =
            match self.get(repo, &format!("/collaborators/{}/permission", escape_path_part(&user.login))).await {
                Ok(answer) => answer.parse_json()?,
                Err(ApiError::NotFound(_)) => return Ok(RepoPermission::Less),
                Err(error) => return Err(error),
            };
        if given.user.is_none_or(|account| account.id != user.id) {
            tracing::warn!(login = user.login, account = user.id, "login belongs to another account now");
            return Ok(RepoPermission::Less);
        }
        Ok(RepoPermission::parse(&given.permission))
    }

    /// Returns a repository as raw JSON, as a webhook contains it.
    pub async fn raw_repository(&self, repo: &RepoName) -> Result<Value, ApiError> {
        self.get(repo, "").await?.parse_json()
    }

    pub(crate) async fn installation_of(&self, repo: &RepoName) -> Result<u64, ApiError> {
        let answer =
            send_api_request(&self.0.root, &Method::GET, &format!("/repos/{repo}/installation"), None, None).await?;
        Ok(answer.parse_json::<wire::IdPayload>()?.id)
    }
}
