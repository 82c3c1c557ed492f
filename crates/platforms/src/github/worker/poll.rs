//! Polls GitHub: as the only source for users without an address for webhooks, and for all users to find
//! events that a webhook did not deliver. The results become events like those of webhooks, and are handled
//! in the same way.
//!
//! Lists are requested by last change, with the tag of the previous response: if nothing changed, that costs
//! nothing. The position in a list is in the store, and advances when all events found are stored.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grove_model::Moment;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::adapter::AdapterState;
use crate::event_queue::retry_delay;
use crate::github::adapter::GithubAdapter;
use crate::github::api::{GithubClient, PollResult, RepositoryList};
use crate::github::inbound::classify::GITHUB_PLATFORM;
use crate::github::repo::RepoName;
use crate::github::worker::events::EventError;
use crate::github::worker::poll_events::{PolledEventReader, in_order, parse_moment};
use crate::github::worker::poll_fetch::ChangeCollector;

/// The interval of polling for events that webhooks did not deliver.
const CATCH_UP_INTERVAL: Duration = Duration::from_secs(300);
/// Events this shortly before the first poll count; it also covers items that GitHub shows late.
const POLL_OVERLAP: SignedDuration = SignedDuration::from_secs(60);
/// The number of pages, of a hundred items each, that are read of a list.
const MAX_LIST_PAGES: u32 = 30;

/// The position up to which a list was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PollCursor {
    /// Changes before this time were seen.
    since: Moment,
    etag: Option<String>,
}

/// The changed items of a list, and the position after reading them.
struct ChangedItems {
    items: Vec<Value>,
    /// Changes before this time were seen.
    from: Moment,
    mark: PollCursor,
}

/// The state between polls.
#[derive(Default)]
struct PollState {
    /// Repositories as raw JSON, by the name that we request.
    repositories: HashMap<String, Value>,
    /// The last error, by repository.
    complaints: HashMap<String, String>,
    /// The number of polls in a row that failed completely.
    failures: i64,
    /// The failure was reported.
    failing: bool,
}

pub(crate) async fn run_polling(
    adapter: &Arc<GithubAdapter>,
    github: &GithubClient,
    mut ending: watch::Receiver<bool>,
) {
    let every = adapter.settings.poll.unwrap_or(CATCH_UP_INTERVAL);
    let (mut us, mut memory) = (adapter.us.subscribe(), PollState::default());
    tokio::select! {
        known = us.wait_for(|us| us.account.is_some()) => if known.is_err() { return },
        _ = ending.wait_for(|ending| *ending) => return,
    }
    while !*ending.borrow_and_update() {
        let rest = adapter.backoff_until().saturating_duration_since(Instant::now());
        if rest.is_zero() {
            tokio::select! {
                () = adapter.poll_repositories(github, &mut memory) => {}
                _ = ending.wait_for(|ending| *ending) => return,
            }
        }
        let left = adapter.backoff_until().saturating_duration_since(Instant::now());
        let pause = if rest.is_zero() { left.max(every) } else { left };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = ending.changed() => {}
        }
    }
}

impl GithubAdapter {
    /// Polls all repositories that are served.
    async fn poll_repositories(&self, github: &GithubClient, memory: &mut PollState) {
        let repos = match self.watched_repositories().await {
            Ok(repos) => repos,
            Err(error) => return tracing::warn!(%error, "repositories to poll not loaded"),
        };
        memory.complaints.retain(|name, _| repos.iter().any(|repo| repo.to_string() == *name));
        for repo in repos {
            let error = match Box::pin(self.ask_about(github, &repo, memory)).await {
                Ok(()) => {
                    memory.complaints.remove(&repo.to_string());
                    continue;
                }
                Err(error) => error,
            };
            if let EventError::Api(error) = &error
                && error.concerns_all()
            {
                tracing::warn!(%repo, %error, "polling failed");
                self.rest_for(retry_delay(error.retry_advice(), memory.failures).unwrap_or(POLL_OVERLAP));
                memory.failures += 1;
                return self.record_failure(memory, &error.to_string()).await;
            }
            // The other repositories may be available.
            let complaint = error.to_string();
            if memory.complaints.insert(repo.to_string(), complaint.clone()).as_ref() != Some(&complaint) {
                tracing::warn!(%repo, error = complaint, "polling failed");
            }
        }
        memory.failures = 0;
        match memory.complaints.iter().min() {
            // With webhooks, events of the repository may arrive all the same.
            Some((repo, complaint)) if self.settings.poll.is_some() => {
                let complaint = format!("{repo}: {complaint}");
                self.record_failure(memory, &complaint).await;
            }
            _ if std::mem::take(&mut memory.failing) => {
                let login = self.bot_identity().account.map(|account| account.login).unwrap_or_default();
                self.is_connected(login.trim_end_matches("[bot]")).await;
            }
            _ => {}
        }
    }

    async fn record_failure(&self, memory: &mut PollState, why: &str) {
        memory.failing = true;
        self.record_state(AdapterState::Failing, why).await;
    }

    async fn ask_about(
        &self,
        github: &GithubClient,
        repo: &RepoName,
        memory: &mut PollState,
    ) -> Result<(), EventError> {
        let watched_since = self.watched_since(repo).await?;
        let issues = self.fetch_changed_items(github, repo, RepositoryList::Issues, watched_since).await?;
        let pulls = self.fetch_changed_items(github, repo, RepositoryList::Pulls, watched_since).await?;
        let comments = self.fetch_changed_items(github, repo, RepositoryList::Comments, watched_since).await?;
        let lines = self.fetch_changed_items(github, repo, RepositoryList::Lines, watched_since).await?;
        let found = [
            (RepositoryList::Issues, &issues),
            (RepositoryList::Pulls, &pulls),
            (RepositoryList::Comments, &comments),
            (RepositoryList::Lines, &lines),
        ];
        let marks: Vec<(RepositoryList, PollCursor)> =
            found.into_iter().filter_map(|(list, changed)| Some((list, changed.as_ref()?.mark.clone()))).collect();
        if marks.is_empty() {
            return Ok(());
        }
        let name = repo.to_string();
        if !memory.repositories.contains_key(&name) {
            memory.repositories.insert(name.clone(), github.raw_repository(repo).await?);
        }
        let us = self.bot_identity();
        let redactor = &self.conversations.redactor;
        let reader = PolledEventReader { us: &us, repository: &memory.repositories[&name], watched_since, redactor };
        let or_nothing = |changed: Option<ChangedItems>| {
            changed.map_or((Vec::new(), watched_since), |found| (found.items, found.from))
        };
        let asking = ChangeCollector { adapter: self, github, repo, reader };
        let (comments, lines) = (or_nothing(comments).0, or_nothing(lines).0);
        let news = Box::pin(asking.collect_events(&or_nothing(issues), &or_nothing(pulls), &comments, &lines)).await?;
        let store = &self.conversations.store;
        let mut events = Vec::new();
        for news in in_order(news) {
            if !store.was_heard(&news.key).await? {
                events.push(news.event);
            }
        }
        if store.keep_events(&events).await?.contains(&true) {
            self.queue.wake_worker();
        }
        for (list, mark) in marks {
            let value = serde_json::to_string(&mark).map_err(|error| EventError::Hopeless(error.to_string()))?;
            store.set_mark(GITHUB_PLATFORM, &mark_name(repo, list.name()), &value).await?;
        }
        Ok(())
    }

    /// Returns the time from which on texts in a repository are for us.
    async fn watched_since(&self, repo: &RepoName) -> Result<Moment, EventError> {
        let (store, name) = (&self.conversations.store, mark_name(repo, "since"));
        if let Some(since) = store.find_mark(GITHUB_PLATFORM, &name).await?.and_then(|since| since.parse().ok()) {
            return Ok(since);
        }
        let since = self.began.add_duration(-POLL_OVERLAP);
        store.set_mark(GITHUB_PLATFORM, &name, &since.to_string()).await?;
        Ok(since)
    }

    /// Returns the items of a list that changed since it was read; `None` if nothing did.
    async fn fetch_changed_items(
        &self,
        github: &GithubClient,
        repo: &RepoName,
        list: RepositoryList,
        first: Moment,
    ) -> Result<Option<ChangedItems>, EventError> {
        let known = self.conversations.store.find_mark(GITHUB_PLATFORM, &mark_name(repo, list.name())).await?;
        let known: Option<PollCursor> = known.and_then(|mark| serde_json::from_str(&mark).ok());
        let mut mark = known.unwrap_or(PollCursor { since: first.add_duration(POLL_OVERLAP), etag: None });
        let from = mark.since.add_duration(-POLL_OVERLAP);
        let shown = mark.etag.take();
        let mut items = Vec::new();
        for page in 1..=MAX_LIST_PAGES {
            let polled = github.poll_changed_items(repo, list, page, shown.as_deref().filter(|_| page == 1)).await?;
            let PollResult::Changed { value, etag, more } = polled else { return Ok(None) };
            if page == 1 {
                mark.etag = etag;
            }
            let ends = value.iter().any(|item| parse_moment(item, "updated_at").is_some_and(|at| at < from));
            items.extend(value.into_iter().filter(|item| parse_moment(item, "updated_at").is_none_or(|at| at >= from)));
            if ends || !more {
                break;
            }
            if page == MAX_LIST_PAGES {
                tracing::warn!(%repo, list = list.name(), "too many new items, the oldest are left out");
            }
        }
        mark.since = items.iter().filter_map(|item| parse_moment(item, "updated_at")).fold(mark.since, Moment::max);
        Ok(Some(ChangedItems { items, from, mark }))
    }
}

fn mark_name(repo: &RepoName, what: &str) -> String {
    format!("asked {} {what}", repo.to_string().to_lowercase())
}
