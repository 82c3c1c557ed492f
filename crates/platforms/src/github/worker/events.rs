//! Works off what was kept: the threads side by side, each in its order.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use grove_environments::lease::{LEASE, is_gone, this_process};
use grove_model::{Moment, Owner};
use grove_store::{RawEvent, StoreError};
use jiff::SignedDuration;
use tokio::sync::watch;

use crate::github::adapter::Adapter;
use crate::github::api::{ApiError, Github, Retry};
use crate::github::inbound::classify::GITHUB;
use crate::github::inbound::event::{Delivered, read};

/// How often is looked without being told to.
const LOOK: Duration = Duration::from_secs(2);
/// How much is looked at together.
const TOGETHER: i64 = 100;
/// How many threads are worked on at once.
const AT_ONCE: usize = 8;
/// After so many tries, which is a week, something that only ever fails is given up.
const TRIES: i64 = 2_000;
/// GitHub is left alone for no longer than that because of one thing that it does not answer.
const REST: SignedDuration = SignedDuration::from_secs(10);
/// What comes after a failure, doubled each time, and at most; in seconds.
const PAUSE: (i64, i64) = (2, 300);

/// Why an event is not worked off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stuck {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Hopeless(String),
}

pub(crate) async fn serve(adapter: &Arc<Adapter>, github: &Github, mut ending: watch::Receiver<bool>) {
    let mut failures = 0;
    while !*ending.borrow_and_update() {
        let rest = adapter.rest().saturating_duration_since(Instant::now());
        if rest.is_zero() {
            if adapter.us().account.is_none() {
                failures = if adapter.learn_who_we_are(github, failures).await { 0 } else { failures + 1 };
                continue;
            }
            match adapter.work_off(github).await {
                // There may be more behind it.
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => tracing::warn!("what GitHub told could not be looked at: {error}"),
            }
        }
        tokio::select! {
            () = adapter.new.notified(), if rest.is_zero() => {}
            () = tokio::time::sleep(if rest.is_zero() { LOOK } else { rest }) => {}
            _ = ending.changed() => {}
        }
    }
}

impl Adapter {
    /// Nothing is asked of GitHub before this: it asked for that, or did not answer.
    pub(crate) fn rest(&self) -> Instant {
        *self.rest_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn rest_for(&self, pause: SignedDuration) {
        let until = Instant::now() + pause.unsigned_abs();
        let mut rest = self.rest_until.lock().unwrap_or_else(PoisonError::into_inner);
        *rest = until.max(*rest);
    }

    /// Whether that is known now; if not, all of it waits.
    async fn learn_who_we_are(&self, github: &Github, failures: i64) -> bool {
        match github.whoami().await {
            Ok(account) => {
                tracing::info!("on GitHub as {}", account.name);
                self.is_connected(&account.name).await;
                // An App that is installed nowhere has no account yet, and nobody who could call it.
                let unknown = account.user.is_none();
                self.us.send_modify(|us| us.account = account.user);
                if unknown {
                    self.rest_for(SignedDuration::from_secs(30));
                }
                if let Err(error) = self.find_listed_accounts(github).await {
                    tracing::warn!("the accounts of adapters.github.allowed_users are not all known yet: {error}");
                }
                true
            }
            Err(error) => {
                tracing::warn!("who we are on GitHub is not known yet: {error}");
                self.is("failing", &error.to_string()).await;
                self.rest_for(pause(&error, failures).unwrap_or(SignedDuration::from_secs(PAUSE.1)));
                false
            }
        }
    }

    /// Works off what waits; whether anything came to its end.
    async fn work_off(&self, github: &Github) -> Result<bool, StoreError> {
        let (mut after, mut stuck) = (None, HashSet::new());
        loop {
            let waiting = self.talks.store.waiting_events(GITHUB, after, TOGETHER).await?;
            after = waiting.last().map(|last| last.id);
            let is_last = waiting.len() < usize::try_from(TOGETHER).unwrap_or(usize::MAX);
            let threads = by_thread(waiting).into_iter().filter(|(thread, _)| !stuck.contains(thread));
            let worked = futures_util::stream::iter(threads.collect::<Vec<_>>())
                .map(|(thread, events)| async move {
                    let done = self.thread(github, &events).await?;
                    Ok((done, (done < events.len()).then_some(thread)))
                })
                .buffer_unordered(AT_ONCE)
                .collect::<Vec<Result<(usize, Option<String>), StoreError>>>()
                .await;
            let mut any = false;
            for worked in worked {
                let (done, unfinished) = worked?;
                any |= done > 0;
                stuck.extend(unfinished);
            }
            // What stands before the rest must not hide it.
            if any || is_last || self.rest() > Instant::now() {
                return Ok(any);
            }
        }
    }

    /// The events of one thread, in their order: what cannot be done now keeps the rest waiting.
    /// How many came to their end.
    async fn thread(&self, github: &Github, events: &[RawEvent]) -> Result<usize, StoreError> {
        let store = &self.talks.store;
        let mut done = 0;
        for event in events {
            let now = Moment::now();
            let busy = |worker: &Owner| worker != this_process() && !is_gone(worker, event.worker_until, now);
            if self.rest() > Instant::now()
                || event.not_before.is_some_and(|not_before| now < not_before)
                || event.worker.as_ref().is_some_and(busy)
                || !store.take_event(event, this_process(), now.plus(LEASE)).await?
            {
                return Ok(done);
            }
            let stuck = match self.one(github, event).await {
                Ok(outcome) => {
                    store.event_done(event.id, true, &self.talks.redactor.clean(&outcome)).await?;
                    done += 1;
                    continue;
                }
                Err(Stuck::Store(error)) => return Err(error),
                Err(stuck) => stuck,
            };
            let why = self.talks.redactor.clean(&stuck.to_string());
            let pause = match &stuck {
                Stuck::Api(error) => pause(error, event.tries).map(|pause| (error, pause)),
                Stuck::Store(_) | Stuck::Hopeless(_) => None,
            };
            match pause {
                Some((error, pause)) => {
                    tracing::warn!("delivery {} waits {} s: {why}", event.delivery, pause.as_secs());
                    store.event_later(event.id, now.plus(pause), &why).await?;
                    self.rest_for(if error.concerns_all() { pause } else { pause.min(REST) });
                    return Ok(done);
                }
                None => {
                    tracing::error!("delivery {} is given up: {why}", event.delivery);
                    store.event_done(event.id, false, &why).await?;
                    done += 1;
                }
            }
        }
        Ok(done)
    }
}

/// The events of each thread, in their order.
fn by_thread(events: Vec<RawEvent>) -> Vec<(String, Vec<RawEvent>)> {
    let mut threads: Vec<(String, Vec<RawEvent>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for event in events {
        let thread = thread_of(&event);
        let place = *places.entry(thread.clone()).or_insert_with(|| {
            threads.push((thread, Vec::new()));
            threads.len() - 1
        });
        threads[place].1.push(event);
    }
    threads
}

/// How long to wait before the same is tried again, if that can help.
pub(crate) fn pause(error: &ApiError, tries: i64) -> Option<SignedDuration> {
    let doubled = || PAUSE.0.saturating_mul(1 << tries.clamp(0, 16)).min(PAUSE.1);
    let seconds = match error.retry() {
        _ if tries >= TRIES => return None,
        Retry::After(wait) => i64::try_from(wait.as_secs()).unwrap_or(PAUSE.1).max(1),
        Retry::Later => doubled(),
        Retry::Never => return None,
    };
    Some(SignedDuration::from_secs(seconds))
}

/// What keeps the order of an event: its issue or pull request.
fn thread_of(event: &RawEvent) -> String {
    match read(&event.kind, event.body.as_bytes()) {
        Ok(Delivered::Happened(happening)) => happening.repo.name.conversation(happening.thread.number).to_lowercase(),
        _ => event.delivery.clone(),
    }
}
