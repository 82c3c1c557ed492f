//! The connection of the rest of the program to GitHub: tokens for git, and pull requests.
//!
//! No request is sent before it is needed: most commands of the terminal never need one.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use grove_environments::forge::{Forge, ForgeError, NewPullRequest, OpenedPullRequest, PullRequestTitle};
use grove_environments::settings::GithubSettings;
use grove_git::credentials::{Credential, CredentialProvider};
use grove_model::{Codebase, PullRequestInfo};
use tokio::sync::OnceCell;

use crate::clean::one_line;
use crate::github::adapter::{GithubSettingsError, build_github_client};
use crate::github::api::{ApiError, CreatePullRequest, GithubClient};
use crate::github::inbound::wire::PullRequestPayload;
use crate::github::repo::RepoName;
use crate::github::web_address::GithubWeb;

/// The longest title that GitHub accepts.
const MAX_TITLE_LENGTH: usize = 250;

/// The user name for any of GitHub's tokens.
const GIT_TOKEN_USERNAME: &str = "x-access-token";

pub struct GithubConnection {
    settings: GithubSettings,
    web: GithubWeb,
    github: OnceCell<GithubClient>,
}

impl GithubConnection {
    /// Creates a connection; `None` if GitHub is not configured.
    pub fn new(settings: GithubSettings) -> Option<Arc<Self>> {
        settings.credentials.as_ref()?;
        let web = GithubWeb::of_api(&settings.api_url)?;
        Some(Arc::new(Self { settings, web, github: OnceCell::new() }))
    }

    async fn github_client(&self) -> Result<&GithubClient, GithubSettingsError> {
        let made = self.github.get_or_try_init(async || {
            let credentials = self.settings.credentials.as_ref().ok_or(GithubSettingsError::NoCredentials)?;
            build_github_client(&self.settings, credentials)
        });
        made.await
    }

    fn codebase_repository(&self, codebase: &Codebase) -> Option<RepoName> {
        self.web.repo_of(codebase.repository_url.as_deref()?)
    }

    async fn open_one(
        github: &GithubClient,
        repo: &RepoName,
        branch: &str,
    ) -> Result<Option<PullRequestInfo>, ApiError> {
        let found = github.pull_from(repo, branch).await?;
        Ok(found.as_ref().and_then(PullRequestPayload::pull_request_info).filter(PullRequestInfo::is_open))
    }

    async fn pull_request_title(github: &GithubClient, repo: &RepoName, new: &NewPullRequest<'_>) -> String {
        let title = match (&new.title, new.issue) {
            (PullRequestTitle::Given(title), _) => Some((*title).to_owned()),
            (PullRequestTitle::OfIssueOr(_), Some(issue)) => {
                github.fetch_issue(repo, issue).await.ok().and_then(|issue| issue.title)
            }
            (PullRequestTitle::OfIssueOr(_), None) => None,
        };
        let title = title.map(|title| one_line(&title, MAX_TITLE_LENGTH)).filter(|title| !title.is_empty());
        title.unwrap_or_else(|| match &new.title {
            PullRequestTitle::OfIssueOr(subject) if !subject.is_empty() => one_line(subject, MAX_TITLE_LENGTH),
            PullRequestTitle::OfIssueOr(_) | PullRequestTitle::Given(_) => new.branch.to_string(),
        })
    }
}

#[async_trait]
impl CredentialProvider for GithubConnection {
    async fn credential_for_url(&self, url: &str) -> Result<Option<Credential>, String> {
        let Some(repo) = self.web.repo_at(url) else { return Ok(None) };
        let github = self.github_client().await.map_err(|error| error.to_string())?;
        let secret = github.git_token(&repo).await.map_err(|error| error.to_string())?;
        Ok(Some(Credential { username: GIT_TOKEN_USERNAME.to_owned(), secret }))
    }
}

#[async_trait]
impl Forge for GithubConnection {
    fn hosts_codebase(&self, codebase: &Codebase) -> bool {
        self.codebase_repository(codebase).is_some()
    }

    async fn open_pull_request(
        &self,
        codebase: &Codebase,
        new: &NewPullRequest<'_>,
    ) -> Result<OpenedPullRequest, ForgeError> {
        let failed = |error: ApiError| ForgeError(error.to_string());
        let elsewhere = || ForgeError(format!("`{}` is not on GitHub", codebase.name));
        let repo = self.codebase_repository(codebase).ok_or_else(elsewhere)?;
        let github = self.github_client().await.map_err(|error| ForgeError(error.to_string()))?;
        let branch = new.branch.as_str();
        if let Some(pull_request) = Self::open_one(github, &repo, branch).await.map_err(failed)? {
            return Ok(OpenedPullRequest { pull_request, found: true });
        }
        let title = Self::pull_request_title(github, &repo, new).await;
        let body = new.issue.map(|issue| format!("Fixes #{issue}")).unwrap_or_default();
        let wanted = CreatePullRequest { title: &title, body: &body, head: branch, base: new.base };
        let error = match github.open_pull(&repo, &wanted).await {
            Ok(pull) => match pull.pull_request_info() {
                Some(pull_request) => return Ok(OpenedPullRequest { pull_request, found: false }),
                None => ApiError::Nonsense("the pull request has no address".to_owned()),
            },
            Err(error) => error,
        };
        // The pull request may exist after all, opened by us or by another account.
        match Self::open_one(github, &repo, branch).await {
            Ok(Some(pull_request)) => Ok(OpenedPullRequest { pull_request, found: false }),
            _ => Err(failed(error)),
        }
    }
}

impl fmt::Debug for GithubConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("web", &self.web).finish_non_exhaustive()
    }
}
