//! GitHub is asked what happened: by whoever has no address for webhooks, and by everybody for what a
//! webhook did not bring. It becomes events like those of webhooks, and goes the same way.
//!
//! Lists are asked for what changed last, with the tag of the answer before: if nothing changed that
//! costs nothing. How far a list was read is in the store, and moves on when all that was found is there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grove_model::{Environment, Moment};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::Adapter;
use super::work::{Stuck, pause};
use crate::github::api::{ApiError, Github, List, Polled};
use crate::github::news::{News, Reader, by_number, in_order, is_pull, moment, number_of};
use crate::github::repo::RepoName;
use crate::github::translate::GITHUB;

/// How often is asked what webhooks did not bring.
const CATCH_UP: Duration = Duration::from_secs(300);
/// What happened so shortly before the very first question counts; and what GitHub shows late.
const OVERLAP: SignedDuration = SignedDuration::from_secs(60);
/// How many pages of a hundred are read of a list.
const PAGES: u32 = 30;

/// How far a list was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Mark {
    /// What changed before was seen.
    since: Moment,
    etag: Option<String>,
}

/// What changed in a list, and how far it is read with it.
struct Changed {
    items: Vec<Value>,
    mark: Mark,
}

/// What is remembered between questions.
#[derive(Default)]
struct Memory {
    /// Repositories word for word, by the name that we ask for.
    repositories: HashMap<String, Value>,
    /// What went wrong the last time, by repository.
    complaints: HashMap<String, String>,
}

pub(super) async fn serve(adapter: &Arc<Adapter>, github: &Github, mut ending: watch::Receiver<bool>) {
    let every = adapter.settings.poll.unwrap_or(CATCH_UP);
    let (mut us, mut memory) = (adapter.us.subscribe(), Memory::default());
    tokio::select! {
        known = us.wait_for(|us| us.account.is_some()) => if known.is_err() { return },
        _ = ending.wait_for(|ending| *ending) => return,
    }
    while !*ending.borrow_and_update() {
        let rest = adapter.rest().saturating_duration_since(Instant::now());
        if rest.is_zero() {
            adapter.ask(github, &mut memory).await;
        }
        let pause = adapter.rest().saturating_duration_since(Instant::now()).max(every);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = ending.changed() => {}
        }
    }
}

impl Adapter {
    /// Asks about all repositories that are worked for.
    async fn ask(&self, github: &Github, memory: &mut Memory) {
        let repos = match self.watched().await {
            Ok(repos) => repos,
            Err(error) => return tracing::warn!("which repositories to ask about is not known: {error}"),
        };
        for repo in repos {
            let name = repo.to_string();
            let complaint = match Box::pin(self.ask_about(github, &repo, memory)).await {
                Ok(()) => memory.complaints.remove(&name).is_some().then_some(None),
                Err(Stuck::Api(error)) if pause(&error, 0).is_some() => {
                    tracing::warn!("{repo} could not be asked about: {error}");
                    return self.rest_for(pause(&error, 0).unwrap_or(OVERLAP));
                }
                // It is not there, or not for us: the others may be.
                Err(error) => {
                    let told = memory.complaints.insert(name, error.to_string());
                    (told.as_deref() != Some(&error.to_string())).then_some(Some(error.to_string()))
                }
            };
            match complaint {
                Some(Some(complaint)) => {
                    tracing::warn!("{repo} cannot be asked about: {complaint}");
                    // With webhooks it may be heard of all the same.
                    if self.settings.poll.is_some() {
                        self.is("failing", &format!("{repo}: {complaint}")).await;
                    }
                }
                Some(None) if memory.complaints.is_empty() => {
                    let login = self.us().account.map(|account| account.login).unwrap_or_default();
                    self.is_connected(login.trim_end_matches("[bot]")).await;
                }
                _ => {}
            }
        }
    }

    async fn ask_about(&self, github: &Github, repo: &RepoName, memory: &mut Memory) -> Result<(), Stuck> {
        let watched_since = self.watched_since(repo).await?;
        let issues = self.changed(github, repo, List::Issues, watched_since).await?;
        let comments = self.changed(github, repo, List::Comments, watched_since).await?;
        let lines = self.changed(github, repo, List::Lines, watched_since).await?;
        let found = [(List::Issues, &issues), (List::Comments, &comments), (List::Lines, &lines)];
        if found.iter().all(|(_, changed)| changed.is_none()) {
            return Ok(());
        }
        let marks: Vec<(List, Mark)> =
            found.into_iter().filter_map(|(list, changed)| Some((list, changed.as_ref()?.mark.clone()))).collect();
        let name = repo.to_string();
        if !memory.repositories.contains_key(&name) {
            memory.repositories.insert(name.clone(), github.raw_repository(repo).await?);
        }
        let us = self.us();
        let repository = &memory.repositories[&name];
        let reader = Reader { us: &us, repository, watched_since };
        let items = |changed: Option<Changed>| changed.map(|changed| changed.items).unwrap_or_default();
        let mut asking = Asking { adapter: self, github, repo, reader, pulls: HashMap::new() };
        let news = asking.news(items(issues), &items(comments), &items(lines)).await?;
        let store = &self.talks.store;
        let mut events = Vec::new();
        for news in in_order(news) {
            if !store.was_heard(&news.key).await? {
                events.push(news.event);
            }
        }
        if store.keep_events(&events).await?.contains(&true) {
            self.new.notify_one();
        }
        for (list, mark) in marks {
            let value = serde_json::to_string(&mark).map_err(|error| Stuck::Hopeless(error.to_string()))?;
            store.set_mark(GITHUB, &mark_name(repo, list.name()), &value).await?;
        }
        Ok(())
    }

    /// From when on what is written in a repository is for us.
    async fn watched_since(&self, repo: &RepoName) -> Result<Moment, Stuck> {
        let (store, name) = (&self.talks.store, mark_name(repo, "since"));
        if let Some(since) = store.mark(GITHUB, &name).await?.and_then(|since| since.parse().ok()) {
            return Ok(since);
        }
        let since = self.began.plus(-OVERLAP);
        store.set_mark(GITHUB, &name, &since.to_string()).await?;
        Ok(since)
    }

    /// What changed in a list since it was read; `None`: nothing.
    async fn changed(
        &self,
        github: &Github,
        repo: &RepoName,
        list: List,
        first: Moment,
    ) -> Result<Option<Changed>, Stuck> {
        let known = self.talks.store.mark(GITHUB, &mark_name(repo, list.name())).await?;
        let known: Option<Mark> = known.and_then(|mark| serde_json::from_str(&mark).ok());
        let mut mark = known.unwrap_or(Mark { since: first.plus(OVERLAP), etag: None });
        let from = mark.since.plus(-OVERLAP);
        let shown = mark.etag.take();
        let mut items = Vec::new();
        for page in 1..=PAGES {
            let polled = github.changed(repo, list, page, shown.as_deref().filter(|_| page == 1)).await?;
            let Polled::Changed { value, etag, more } = polled else { return Ok(None) };
            if page == 1 {
                mark.etag = etag;
            }
            let ends = value.iter().any(|item| moment(item, "updated_at").is_some_and(|at| at < from));
            items.extend(value.into_iter().filter(|item| moment(item, "updated_at").is_none_or(|at| at >= from)));
            if ends || !more {
                break;
            }
            if page == PAGES {
                tracing::warn!(
                    "{repo} has more that is new than is looked at: its oldest {} are left out",
                    list.name()
                );
            }
        }
        mark.since = items.iter().filter_map(|item| moment(item, "updated_at")).fold(mark.since, Moment::max);
        Ok(Some(Changed { items, mark }))
    }
}

/// Finds out the rest of what changed in a repository.
struct Asking<'a> {
    adapter: &'a Adapter,
    github: &'a Github,
    repo: &'a RepoName,
    reader: Reader<'a>,
    pulls: HashMap<u64, Value>,
}

impl Asking<'_> {
    async fn news(&mut self, issues: Vec<Value>, comments: &[Value], lines: &[Value]) -> Result<Vec<News>, Stuck> {
        let mut news = Vec::new();
        let mut issues = by_number(issues);
        for (number, issue) in &issues {
            news.extend(self.of_thread(*number, issue).await?);
        }
        for comment in comments.iter().filter(|comment| self.reader.is_called(comment)) {
            let Some(number) = number_of(comment) else { continue };
            let issue = match issues.entry(number) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => match there(self.github.raw_issue(self.repo, number).await)? {
                    Some(issue) => unknown.insert(issue),
                    None => continue,
                },
            };
            news.extend(self.reader.comment(issue, comment));
        }
        for comment in lines {
            if self.reader.is_called(comment)
                && let Some(number) = number_of(comment)
                && let Some(pull) = self.pull(number).await?
            {
                news.extend(self.reader.lines(&pull, comment));
            }
        }
        Ok(news)
    }

    /// What is new of an issue or pull request itself, and in a pull request's reviews.
    async fn of_thread(&mut self, number: u64, issue: &Value) -> Result<Vec<News>, Stuck> {
        if !is_pull(issue) {
            let is_ours = self.reader.calls(issue) || self.is_worked_on(number, None).await?;
            return Ok(if is_ours { self.reader.issue(issue) } else { Vec::new() });
        }
        let Some(pull) = self.pull(number).await? else { return Ok(Vec::new()) };
        let branch = pull["head"]["ref"].as_str();
        let is_ours = self.reader.calls(&pull) || self.is_worked_on(number, branch).await?;
        let mut news = if is_ours { self.reader.pull(&pull) } else { Vec::new() };
        for review in there(self.github.raw_reviews(self.repo, number).await)?.unwrap_or_default() {
            let is_new = moment(&review, "submitted_at").is_some_and(|at| at >= self.reader.watched_since);
            if is_new && self.reader.is_called(&review) {
                news.extend(self.reader.review(&pull, &review));
            }
        }
        Ok(news)
    }

    async fn pull(&mut self, number: u64) -> Result<Option<Value>, Stuck> {
        if !self.pulls.contains_key(&number) {
            let Some(pull) = there(self.github.raw_pull(self.repo, number).await)? else { return Ok(None) };
            self.pulls.insert(number, pull);
        }
        Ok(self.pulls.get(&number).cloned())
    }

    /// Whether there is a conversation about it, or an environment.
    async fn is_worked_on(&self, number: u64, branch: Option<&str>) -> Result<bool, Stuck> {
        let store = &self.adapter.talks.store;
        let full_name = self.reader.repository["full_name"].as_str().and_then(RepoName::parse);
        let repo = full_name.as_ref().unwrap_or(self.repo);
        let conversations = store.conversations_called(&repo.conversation(number)).await?;
        if conversations.iter().any(|conversation| conversation.platform == GITHUB) {
            return Ok(true);
        }
        let Some(codebase) = self.adapter.codebase_of(repo).await? else { return Ok(false) };
        let live = store.environments(codebase.id, false).await?;
        let is_about = |environment: &Environment| {
            environment.related_prs.contains(&number) || branch == Some(environment.branch.as_str())
        };
        Ok(live.iter().any(is_about))
    }
}

/// `None`: it was there when the list was made, and is no more.
fn there<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Err(ApiError::NotFound(_)) => Ok(None),
        other => other.map(Some),
    }
}

fn mark_name(repo: &RepoName, what: &str) -> String {
    format!("asked {} {what}", repo.to_string().to_lowercase())
}
