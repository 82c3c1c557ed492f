//! Checks whether GitHub works as it is configured: this module sends the requests, [`judge`] interprets the
//! responses.
//!
//! Nothing is written anywhere. Every request has a timeout; a fact without a response is unknown, which is
//! neither good nor bad.

mod hook;
mod judge;

use std::time::Duration;

use futures_util::{StreamExt, stream};
use grove_environments::maintenance::doctor::{CheckResult, DoctorCheck};
use grove_environments::settings::GithubSettings;
use grove_git::Git;
use grove_model::Codebase;
use jiff::Timestamp;
use tokio::time::{Instant, timeout_at};

use crate::github::adapter::build_github_client;
use crate::github::api::{
    ApiError, AppInstallation, AppWebhook, ClientSetupError, CredentialRights, GithubClient, RepositoryWebhook,
    VisibleRepository,
};
use crate::github::repo::RepoName;
use crate::github::web_address::GithubWeb;

/// The time to wait for one response.
const CHECK_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that all checks may take.
const CHECKUP_TIMEOUT: Duration = Duration::from_secs(20);
/// The number of repositories that are checked at the same time.
const MAX_CONCURRENT_REPOSITORIES: usize = 8;

/// A repository to check.
#[derive(Clone, Debug)]
struct CheckedRepository {
    repo: RepoName,
    /// The repository is in `adapters.github.repos`.
    listed: bool,
    /// Messages from there are accepted; otherwise only git uses it.
    heard: bool,
}

/// The findings about a repository.
struct RepositoryFindings {
    seen: Result<VisibleRepository, ApiError>,
    /// Set for an App.
    installed: Option<Result<AppInstallation, ApiError>>,
    /// `None` if webhooks do not matter.
    hooks: Option<Result<Vec<RepositoryWebhook>, ApiError>>,
}

/// Runs all checks; returns none if GitHub is not configured.
pub async fn run_github_checkup(settings: &GithubSettings, codebases: &[Codebase], git: &Git) -> Vec<DoctorCheck> {
    let hears = !settings.webhook_secrets.is_empty() || settings.poll.is_some();
    if settings.credentials.is_none() && !hears && settings.repos.is_empty() {
        return Vec::new();
    }
    let mut checks = judge::check_settings(settings);
    let Some(credentials) = &settings.credentials else {
        checks.push(judge::no_credentials());
        return checks;
    };
    let no_address = || ClientSetupError::Address(settings.api_url.clone()).into();
    let web = GithubWeb::of_api(&settings.api_url).ok_or_else(no_address);
    let (github, web) = match web.and_then(|web| Ok((build_github_client(settings, credentials)?, web))) {
        Ok(both) => both,
        Err(error) => {
            checks.push(judge::unusable_settings_check(&error));
            return checks;
        }
    };
    let requester = CheckupClient { github: &github, end: Instant::now() + CHECKUP_TIMEOUT };
    let standing = requester.wait_with_timeout(github.credential_status()).await;
    checks.extend(judge::check_credentials(&standing, github.is_app(), &web, Timestamp::now()));
    if standing.as_ref().is_err_and(ends_it) {
        return checks;
    }
    let rights = standing.as_ref().ok().map(|standing| &standing.rights);
    let is_told = settings.poll.is_none() && hears;
    let app_hook =
        if github.is_app() && is_told { Some(requester.wait_with_timeout(github.app_hook()).await) } else { None };
    let told_by_app = app_hook.as_ref().is_some_and(|hook| hook.as_ref().is_ok_and(AppWebhook::is_ours));
    if let (Some(hook), Some(CredentialRights::App { events, .. })) = (&app_hook, rights) {
        checks.push(hook::of_app(hook, events));
    }
    let subjects = repositories_to_check(settings, codebases, &web, hears);
    let (with_hooks, requester) = (is_told && !told_by_app, &requester);
    let looks = subjects.iter().map(|subject| requester.look_at(subject, with_hooks && subject.heard));
    let found: Vec<RepositoryFindings> = stream::iter(looks).buffered(MAX_CONCURRENT_REPOSITORIES).collect().await;
    for (subject, found) in subjects.iter().zip(&found) {
        let repository = judge::check_repository(subject, found, rights);
        let is_well = repository.iter().all(|check| check.verdict != CheckResult::Bad);
        checks.extend(repository);
        // Webhooks do not matter where we have no access.
        checks.extend(found.hooks.as_ref().filter(|_| is_well).map(|hooks| hook::of_repository(&subject.repo, hooks)));
    }
    // Uses the current name: another check already reported the rename.
    let seen = found.iter().filter_map(|found| found.seen.as_ref().ok());
    if let Some(repo) = seen.filter_map(|seen| RepoName::parse(&seen.full_name)).next() {
        let answered =
            timeout_at(requester.request_deadline(), git.check_reachable(&web.clone_url(&repo), CHECK_REQUEST_TIMEOUT))
                .await;
        checks.push(judge::check_git_access(&repo, answered.ok()));
    }
    checks
}

/// Tells whether every other request would fail too.
fn ends_it(error: &ApiError) -> bool {
    match error {
        ApiError::Limited { .. }
        | ApiError::Unavailable { .. }
        | ApiError::BadCredentials(_)
        | ApiError::Nonsense(_) => true,
        ApiError::Forbidden(_) | ApiError::NotFound(_) | ApiError::Refused { .. } => false,
    }
}

/// Returns the listed repositories, and those that codebases come from.
fn repositories_to_check(
    settings: &GithubSettings,
    codebases: &[Codebase],
    web: &GithubWeb,
    hears: bool,
) -> Vec<CheckedRepository> {
    let listed = settings.repos.iter().filter_map(|name| RepoName::parse(name)).map(|repo| (repo, true));
    let remote = |codebase: &Codebase| web.repo_of(codebase.repository_url.as_deref()?);
    let of_codebases = codebases.iter().filter_map(remote).map(|repo| (repo, false));
    let mut subjects: Vec<CheckedRepository> = Vec::new();
    for (repo, listed) in listed.chain(of_codebases) {
        if !subjects.iter().any(|known| known.repo.is_same_repo(&repo)) {
            let heard = hears && (listed || settings.repos.is_empty());
            subjects.push(CheckedRepository { repo, listed, heard });
        }
    }
    subjects
}

/// Sends requests, and waits no longer than the remaining time.
struct CheckupClient<'a> {
    github: &'a GithubClient,
    end: Instant,
}

impl CheckupClient<'_> {
    fn request_deadline(&self) -> Instant {
        self.end.min(Instant::now() + CHECK_REQUEST_TIMEOUT)
    }

    async fn wait_with_timeout<T>(&self, asked: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
        let late = |_| Err(ApiError::Unavailable { what: "the time is over".to_owned(), wait: None });
        timeout_at(self.request_deadline(), asked).await.unwrap_or_else(late)
    }

    async fn look_at(&self, subject: &CheckedRepository, with_hooks: bool) -> RepositoryFindings {
        let (github, repo) = (self.github, &subject.repo);
        let installed = async {
            if github.is_app() { Some(self.wait_with_timeout(github.installed_at(repo)).await) } else { None }
        };
        let hooks =
            async { if with_hooks { Some(self.wait_with_timeout(github.list_webhooks(repo)).await) } else { None } };
        let (seen, installed, hooks) = tokio::join!(self.wait_with_timeout(github.seen_as(repo)), installed, hooks);
        RepositoryFindings { seen, installed, hooks }
    }
}
