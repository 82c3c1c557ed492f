//! GitHub is asked what happened: by whoever has no address for webhooks, and by everybody for what a
//! webhook did not bring. It becomes events like those of webhooks, and goes the same way.
//!
//! Lists are asked for what changed last, with the tag of the answer before: if nothing changed that
//! costs nothing. How far a list was read is in the store, and moves on when all that was found is there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grove_model::Moment;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::github::adapter::Adapter;
use crate::github::api::{Github, List, Polled};
use crate::github::inbound::classify::GITHUB;
use crate::github::repo::RepoName;
use crate::github::worker::events::{Stuck, pause};
use crate::github::worker::poll_events::{Reader, in_order, moment};
use crate::github::worker::poll_fetch::Asking;

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
    /// What changed before was seen.
    from: Moment,
    mark: Mark,
}

/// What is remembered between questions.
#[derive(Default)]
struct Memory {
    /// Repositories word for word, by the name that we ask for.
    repositories: HashMap<String, Value>,
    /// What went wrong the last time, by repository.
    complaints: HashMap<String, String>,
    /// How often in a row nothing could be asked at all.
    failures: i64,
    /// That was said.
    failing: bool,
}

pub(crate) async fn serve(adapter: &Arc<Adapter>, github: &Github, mut ending: watch::Receiver<bool>) {
    let every = adapter.settings.poll.unwrap_or(CATCH_UP);
    let (mut us, mut memory) = (adapter.us.subscribe(), Memory::default());
    tokio::select! {
        known = us.wait_for(|us| us.account.is_some()) => if known.is_err() { return },
        _ = ending.wait_for(|ending| *ending) => return,
    }
    while !*ending.borrow_and_update() {
        let rest = adapter.rest().saturating_duration_since(Instant::now());
        if rest.is_zero() {
            tokio::select! {
                () = adapter.ask(github, &mut memory) => {}
                _ = ending.wait_for(|ending| *ending) => return,
            }
        }
        let left = adapter.rest().saturating_duration_since(Instant::now());
        let pause = if rest.is_zero() { left.max(every) } else { left };
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
        memory.complaints.retain(|name, _| repos.iter().any(|repo| repo.to_string() == *name));
        for repo in repos {
            let error = match Box::pin(self.ask_about(github, &repo, memory)).await {
                Ok(()) => {
                    memory.complaints.remove(&repo.to_string());
                    continue;
                }
                Err(error) => error,
            };
            if let Stuck::Api(error) = &error
                && error.concerns_all()
            {
                tracing::warn!("{repo} could not be asked about: {error}");
                self.rest_for(pause(error, memory.failures).unwrap_or(OVERLAP));
                memory.failures += 1;
                return self.fails(memory, &error.to_string()).await;
            }
            // The others may be there.
            let complaint = error.to_string();
            if memory.complaints.insert(repo.to_string(), complaint.clone()).as_ref() != Some(&complaint) {
                tracing::warn!("{repo} cannot be asked about: {complaint}");
            }
        }
        memory.failures = 0;
        match memory.complaints.iter().min() {
            // With webhooks it may be heard of all the same.
            Some((repo, complaint)) if self.settings.poll.is_some() => {
                let complaint = format!("{repo}: {complaint}");
                self.fails(memory, &complaint).await;
            }
            _ if std::mem::take(&mut memory.failing) => {
                let login = self.us().account.map(|account| account.login).unwrap_or_default();
                self.is_connected(login.trim_end_matches("[bot]")).await;
            }
            _ => {}
        }
    }

    async fn fails(&self, memory: &mut Memory, why: &str) {
        memory.failing = true;
        self.is("failing", why).await;
    }

    async fn ask_about(&self, github: &Github, repo: &RepoName, memory: &mut Memory) -> Result<(), Stuck> {
        let watched_since = self.watched_since(repo).await?;
        let issues = self.changed(github, repo, List::Issues, watched_since).await?;
        let pulls = self.changed(github, repo, List::Pulls, watched_since).await?;
        let comments = self.changed(github, repo, List::Comments, watched_since).await?;
        let lines = self.changed(github, repo, List::Lines, watched_since).await?;
        let found =
            [(List::Issues, &issues), (List::Pulls, &pulls), (List::Comments, &comments), (List::Lines, &lines)];
        let marks: Vec<(List, Mark)> =
            found.into_iter().filter_map(|(list, changed)| Some((list, changed.as_ref()?.mark.clone()))).collect();
        if marks.is_empty() {
            return Ok(());
        }
        let name = repo.to_string();
        if !memory.repositories.contains_key(&name) {
            memory.repositories.insert(name.clone(), github.raw_repository(repo).await?);
        }
        let us = self.us();
        let redactor = &self.talks.redactor;
        let reader = Reader { us: &us, repository: &memory.repositories[&name], watched_since, redactor };
        let or_nothing =
            |changed: Option<Changed>| changed.map_or((Vec::new(), watched_since), |found| (found.items, found.from));
        let asking = Asking { adapter: self, github, repo, reader };
        let (comments, lines) = (or_nothing(comments).0, or_nothing(lines).0);
        let news = Box::pin(asking.news(&or_nothing(issues), &or_nothing(pulls), &comments, &lines)).await?;
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
        Ok(Some(Changed { items, from, mark }))
    }
}

fn mark_name(repo: &RepoName, what: &str) -> String {
    format!("asked {} {what}", repo.to_string().to_lowercase())
}
