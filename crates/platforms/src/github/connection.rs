//! What the rest of the program needs of GitHub: tokens for git, and pull requests.
//!
//! Nobody is asked before somebody needs it: most commands of the terminal never do.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use grove_environments::forge::{Forge, ForgeError, NewPullRequest, Opened, Title};
use grove_environments::settings::GithubSettings;
use grove_git::credentials::{Credential, Keyring};
use grove_model::{Codebase, PullRequestInfo};
use tokio::sync::OnceCell;

use crate::clean::one_line;
use crate::github::adapter::{BadSettings, client};
use crate::github::api::{ApiError, Github, NewPull};
use crate::github::inbound::wire::Pull;
use crate::github::repo::RepoName;
use crate::github::web_address::Web;

/// GitHub takes no longer title.
const LONGEST_TITLE: usize = 250;

/// The name that goes with any of GitHub's tokens.
const USERNAME: &str = "x-access-token";

pub struct Connection {
    settings: GithubSettings,
    web: Web,
    github: OnceCell<Github>,
}

impl Connection {
    /// `None`: nothing is configured.
    pub fn new(settings: GithubSettings) -> Option<Arc<Self>> {
        settings.credentials.as_ref()?;
        let web = Web::of_api(&settings.api_url)?;
        Some(Arc::new(Self { settings, web, github: OnceCell::new() }))
    }

    async fn github(&self) -> Result<&Github, BadSettings> {
        let made = self.github.get_or_try_init(async || {
            let credentials = self.settings.credentials.as_ref().ok_or(BadSettings::NoCredentials)?;
            client(&self.settings, credentials)
        });
        made.await
    }

    fn repo(&self, codebase: &Codebase) -> Option<RepoName> {
        self.web.repo_of(codebase.repository_url.as_deref()?)
    }

    async fn open_one(github: &Github, repo: &RepoName, branch: &str) -> Result<Option<PullRequestInfo>, ApiError> {
        let found = github.pull_from(repo, branch).await?;
        Ok(found.as_ref().and_then(Pull::info).filter(PullRequestInfo::is_open))
    }

    async fn title(github: &Github, repo: &RepoName, new: &NewPullRequest<'_>) -> String {
        let title = match (&new.title, new.issue) {
            (Title::Given(title), _) => Some((*title).to_owned()),
            (Title::OfIssueOr(_), Some(issue)) => github.issue(repo, issue).await.ok().and_then(|issue| issue.title),
            (Title::OfIssueOr(_), None) => None,
        };
        let title = title.map(|title| one_line(&title, LONGEST_TITLE)).filter(|title| !title.is_empty());
        title.unwrap_or_else(|| match &new.title {
            Title::OfIssueOr(subject) if !subject.is_empty() => one_line(subject, LONGEST_TITLE),
            Title::OfIssueOr(_) | Title::Given(_) => new.branch.to_string(),
        })
    }
}

#[async_trait]
impl Keyring for Connection {
    async fn credential(&self, url: &str) -> Result<Option<Credential>, String> {
        let Some(repo) = self.web.repo_at(url) else { return Ok(None) };
        let github = self.github().await.map_err(|error| error.to_string())?;
        let secret = github.git_token(&repo).await.map_err(|error| error.to_string())?;
        Ok(Some(Credential { username: USERNAME.to_owned(), secret }))
    }
}

#[async_trait]
impl Forge for Connection {
    fn hosts(&self, codebase: &Codebase) -> bool {
        self.repo(codebase).is_some()
    }

    async fn open(&self, codebase: &Codebase, new: &NewPullRequest<'_>) -> Result<Opened, ForgeError> {
        let failed = |error: ApiError| ForgeError(error.to_string());
        let elsewhere = || ForgeError(format!("`{}` is not on GitHub", codebase.name));
        let repo = self.repo(codebase).ok_or_else(elsewhere)?;
        let github = self.github().await.map_err(|error| ForgeError(error.to_string()))?;
        let branch = new.branch.as_str();
        if let Some(pull_request) = Self::open_one(github, &repo, branch).await.map_err(failed)? {
            return Ok(Opened { pull_request, found: true });
        }
        let title = Self::title(github, &repo, new).await;
        let body = new.issue.map(|issue| format!("Fixes #{issue}")).unwrap_or_default();
        let wanted = NewPull { title: &title, body: &body, head: branch, base: new.base };
        let error = match github.open_pull(&repo, &wanted).await {
            Ok(pull) => match pull.info() {
                Some(pull_request) => return Ok(Opened { pull_request, found: false }),
                None => ApiError::Nonsense("the pull request has no address".to_owned()),
            },
            Err(error) => error,
        };
        // It may have been opened after all, by us or by somebody else.
        match Self::open_one(github, &repo, branch).await {
            Ok(Some(pull_request)) => Ok(Opened { pull_request, found: false }),
            _ => Err(failed(error)),
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("web", &self.web).finish_non_exhaustive()
    }
}
