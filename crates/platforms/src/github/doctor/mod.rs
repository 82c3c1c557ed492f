//! Whether GitHub can work as it is configured: here GitHub is asked, [`judge`] says what it means.
//!
//! Nothing is written anywhere. Everything has its time, and what is not answered in it is not known,
//! which is neither good nor bad.

mod hook;
mod judge;

use std::time::Duration;

use futures_util::{StreamExt, stream};
use grove_environments::maintenance::doctor::{Check, Verdict};
use grove_environments::settings::GithubSettings;
use grove_git::Git;
use grove_model::Codebase;
use jiff::Timestamp;
use tokio::time::{Instant, timeout_at};

use crate::github::adapter::client;
use crate::github::api::{ApiError, AppHook, Github, Hook, Installed, Rights, Seen, SetupError};
use crate::github::repo::RepoName;
use crate::github::web_address::Web;

/// How long one answer is waited for.
const EACH: Duration = Duration::from_secs(5);
/// How long all of it may take.
const ALL: Duration = Duration::from_secs(20);
/// How many repositories are looked at together.
const TOGETHER: usize = 8;

/// A repository that is looked at.
#[derive(Clone, Debug)]
struct Subject {
    repo: RepoName,
    /// It is in `adapters.github.repos`.
    listed: bool,
    /// People there are heard; otherwise only git goes there.
    heard: bool,
}

/// What is known of a repository.
struct Found {
    seen: Result<Seen, ApiError>,
    /// Of an App.
    installed: Option<Result<Installed, ApiError>>,
    /// `None` if they do not matter.
    hooks: Option<Result<Vec<Hook>, ApiError>>,
}

/// Nothing at all if nothing is configured.
pub async fn checkup(settings: &GithubSettings, codebases: &[Codebase], git: &Git) -> Vec<Check> {
    let hears = !settings.webhook_secrets.is_empty() || settings.poll.is_some();
    if settings.credentials.is_none() && !hears && settings.repos.is_empty() {
        return Vec::new();
    }
    let mut checks = judge::settings(settings);
    let Some(credentials) = &settings.credentials else {
        checks.push(judge::no_credentials());
        return checks;
    };
    let no_address = || SetupError::Address(settings.api_url.clone()).into();
    let web = Web::of_api(&settings.api_url).ok_or_else(no_address);
    let (github, web) = match web.and_then(|web| Ok((client(settings, credentials)?, web))) {
        Ok(both) => both,
        Err(error) => {
            checks.push(judge::unusable(&error));
            return checks;
        }
    };
    let asker = Asker { github: &github, end: Instant::now() + ALL };
    let standing = asker.ask(github.standing()).await;
    checks.extend(judge::standing(&standing, github.is_app(), &web, Timestamp::now()));
    if standing.as_ref().is_err_and(ends_it) {
        return checks;
    }
    let rights = standing.as_ref().ok().map(|standing| &standing.rights);
    let is_told = settings.poll.is_none() && hears;
    let app_hook = if github.is_app() && is_told { Some(asker.ask(github.app_hook()).await) } else { None };
    let told_by_app = app_hook.as_ref().is_some_and(|hook| hook.as_ref().is_ok_and(AppHook::is_ours));
    if let (Some(hook), Some(Rights::App { events, .. })) = (&app_hook, rights) {
        checks.push(hook::of_app(hook, events));
    }
    let subjects = subjects(settings, codebases, &web, hears);
    let (with_hooks, asker) = (is_told && !told_by_app, &asker);
    let looks = subjects.iter().map(|subject| asker.look_at(subject, with_hooks && subject.heard));
    let found: Vec<Found> = stream::iter(looks).buffered(TOGETHER).collect().await;
    for (subject, found) in subjects.iter().zip(&found) {
        let repository = judge::repository(subject, found, rights);
        let is_well = repository.iter().all(|check| check.verdict != Verdict::Bad);
        checks.extend(repository);
        // What is told does not matter where nothing can be done.
        checks.extend(found.hooks.as_ref().filter(|_| is_well).map(|hooks| hook::of_repository(&subject.repo, hooks)));
    }
    // By its name of today: that it has another one was said.
    let seen = found.iter().filter_map(|found| found.seen.as_ref().ok());
    if let Some(repo) = seen.filter_map(|seen| RepoName::parse(&seen.full_name)).next() {
        let answered = timeout_at(asker.until(), git.reach(&web.address(&repo), EACH)).await;
        checks.push(judge::git(&repo, answered.ok()));
    }
    checks
}

/// Whether nothing else would be answered either.
fn ends_it(error: &ApiError) -> bool {
    match error {
        ApiError::Limited { .. }
        | ApiError::Unavailable { .. }
        | ApiError::BadCredentials(_)
        | ApiError::Nonsense(_) => true,
        ApiError::Forbidden(_) | ApiError::NotFound(_) | ApiError::Refused { .. } => false,
    }
}

/// The repositories that are listed, and those that codebases come from.
fn subjects(settings: &GithubSettings, codebases: &[Codebase], web: &Web, hears: bool) -> Vec<Subject> {
    let listed = settings.repos.iter().filter_map(|name| RepoName::parse(name)).map(|repo| (repo, true));
    let remote = |codebase: &Codebase| web.repo_of(codebase.repository_url.as_deref()?);
    let of_codebases = codebases.iter().filter_map(remote).map(|repo| (repo, false));
    let mut subjects: Vec<Subject> = Vec::new();
    for (repo, listed) in listed.chain(of_codebases) {
        if !subjects.iter().any(|known| known.repo.is(&repo)) {
            let heard = hears && (listed || settings.repos.is_empty());
            subjects.push(Subject { repo, listed, heard });
        }
    }
    subjects
}

/// Asks, and waits no longer than there is time.
struct Asker<'a> {
    github: &'a Github,
    end: Instant,
}

impl Asker<'_> {
    fn until(&self) -> Instant {
        self.end.min(Instant::now() + EACH)
    }

    async fn ask<T>(&self, asked: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
        let late = |_| Err(ApiError::Unavailable { what: "the time is over".to_owned(), wait: None });
        timeout_at(self.until(), asked).await.unwrap_or_else(late)
    }

    async fn look_at(&self, subject: &Subject, with_hooks: bool) -> Found {
        let (github, repo) = (self.github, &subject.repo);
        let installed = async { if github.is_app() { Some(self.ask(github.installed_at(repo)).await) } else { None } };
        let hooks = async { if with_hooks { Some(self.ask(github.hooks(repo)).await) } else { None } };
        let (seen, installed, hooks) = tokio::join!(self.ask(github.seen_as(repo)), installed, hooks);
        Found { seen, installed, hooks }
    }
}
