//! Handles stored events: threads in parallel, the events of each thread in order.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use grove_conversations::backoff::RETRY_BACKOFF;
use grove_environments::lease::{OWNER_LEASE_DURATION, is_gone, this_process};
use grove_model::{EventOutcome, Moment, ProcessOwner};
use grove_store::{RawEvent, StoreError};
use jiff::SignedDuration;
use tokio::sync::watch;

use crate::github::adapter::GithubAdapter;
use crate::github::api::{ApiError, GithubClient, RetryAdvice};
use crate::github::inbound::classify::GITHUB_PLATFORM;
use crate::github::inbound::event::{ParsedDelivery, parse_delivery};

/// The interval of polling the store without a notification.
const EVENT_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The number of events that are loaded at once.
const EVENT_BATCH_SIZE: i64 = 100;
/// The number of threads that are handled at once.
const MAX_CONCURRENT_THREADS: usize = 8;
/// An event that only ever fails is given up after this many attempts, which take a week.
const MAX_EVENT_ATTEMPTS: i64 = 2_000;
/// The maximum pause of all requests because of a single event that GitHub does not answer.
const MAX_SINGLE_EVENT_BACKOFF: SignedDuration = SignedDuration::from_secs(10);
/// The pause after an error that says nothing about a retry.
const LONGEST_RETRY_DELAY: SignedDuration = SignedDuration::from_secs(300);

/// The reason why an event is not handled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Hopeless(String),
}

pub(crate) async fn run_event_worker(
    adapter: &Arc<GithubAdapter>,
    github: &GithubClient,
    mut ending: watch::Receiver<bool>,
) {
    let mut failures = 0;
    while !*ending.borrow_and_update() {
        let rest = adapter.backoff_until().saturating_duration_since(Instant::now());
        if rest.is_zero() {
            if adapter.bot_identity().account.is_none() {
                failures = if adapter.learn_who_we_are(github, failures).await { 0 } else { failures + 1 };
                continue;
            }
            match adapter.process_waiting_events(github).await {
                // There may be more events.
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "stored events not loaded"),
            }
        }
        tokio::select! {
            () = adapter.new.notified(), if rest.is_zero() => {}
            () = tokio::time::sleep(if rest.is_zero() { EVENT_POLL_INTERVAL } else { rest }) => {}
            _ = ending.changed() => {}
        }
    }
}

impl GithubAdapter {
    /// Returns the end of the pause: no request is sent before it, because GitHub asked for that or did not
    /// answer.
    pub(crate) fn backoff_until(&self) -> Instant {
        *self.rest_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn rest_for(&self, pause: SignedDuration) {
        let until = Instant::now() + pause.unsigned_abs();
        let mut rest = self.rest_until.lock().unwrap_or_else(PoisonError::into_inner);
        *rest = until.max(*rest);
    }

    /// Looks up our own account. Returns whether it is known now; if not, all events wait.
    async fn learn_who_we_are(&self, github: &GithubClient, failures: i64) -> bool {
        match github.current_account().await {
            Ok(account) => {
                tracing::info!(account = account.name, "connected to GitHub");
                self.is_connected(&account.name).await;
                // An App that is not installed anywhere has no account yet, and no user who could mention
                // it.
                let unknown = account.user.is_none();
                self.us.send_modify(|us| us.account = account.user);
                if unknown {
                    self.rest_for(SignedDuration::from_secs(30));
                }
                if let Err(error) = self.find_listed_accounts(github).await {
                    tracing::warn!(%error, "accounts of adapters.github.allowed_users not looked up");
                }
                true
            }
            Err(error) => {
                tracing::warn!(%error, "own GitHub account not looked up");
                self.record_state("failing", &error.to_string()).await;
                self.rest_for(retry_delay(&error, failures).unwrap_or(LONGEST_RETRY_DELAY));
                false
            }
        }
    }

    /// Handles waiting events. Returns whether any of them was finished.
    async fn process_waiting_events(&self, github: &GithubClient) -> Result<bool, StoreError> {
        let (mut after, mut stuck) = (None, HashSet::new());
        loop {
            let waiting = self.conversations.store.waiting_events(GITHUB_PLATFORM, after, EVENT_BATCH_SIZE).await?;
            after = waiting.last().map(|last| last.id);
            let is_last = waiting.len() < usize::try_from(EVENT_BATCH_SIZE).unwrap_or(usize::MAX);
            let threads = by_thread(waiting).into_iter().filter(|(thread, _)| !stuck.contains(thread));
            let worked = futures_util::stream::iter(threads.collect::<Vec<_>>())
                .map(|(thread, events)| async move {
                    let done = self.process_thread_events(github, &events).await?;
                    Ok((done, (done < events.len()).then_some(thread)))
                })
                .buffer_unordered(MAX_CONCURRENT_THREADS)
                .collect::<Vec<Result<(usize, Option<String>), StoreError>>>()
                .await;
            let mut any = false;
            for worked in worked {
                let (done, unfinished) = worked?;
                any |= done > 0;
                stuck.extend(unfinished);
            }
            // Events that cannot be handled must not hide those after them.
            if any || is_last || self.backoff_until() > Instant::now() {
                return Ok(any);
            }
        }
    }

    /// Handles the events of one thread in order: one that cannot be handled now blocks the following ones.
    /// Returns how many were finished.
    async fn process_thread_events(&self, github: &GithubClient, events: &[RawEvent]) -> Result<usize, StoreError> {
        let store = &self.conversations.store;
        let mut done = 0;
        for event in events {
            let now = Moment::now();
            let busy = |worker: &ProcessOwner| worker != this_process() && !is_gone(worker, event.worker_until, now);
            if self.backoff_until() > Instant::now()
                || event.not_before.is_some_and(|not_before| now < not_before)
                || event.worker.as_ref().is_some_and(busy)
                || !store.take_event(event, this_process(), now.add_duration(OWNER_LEASE_DURATION)).await?
            {
                return Ok(done);
            }
            let stuck = match self.process_event(github, event).await {
                Ok(outcome) => {
                    let description = self.conversations.redactor.redact_text(&outcome);
                    store.finish_event(event.id, EventOutcome::Done, &description).await?;
                    done += 1;
                    continue;
                }
                Err(EventError::Store(error)) => return Err(error),
                Err(stuck) => stuck,
            };
            let why = self.conversations.redactor.redact_text(&stuck.to_string());
            let pause = match &stuck {
                EventError::Api(error) => retry_delay(error, event.tries).map(|pause| (error, pause)),
                EventError::Store(_) | EventError::Hopeless(_) => None,
            };
            match pause {
                Some((error, pause)) => {
                    tracing::warn!(delivery = event.delivery, pause_s = pause.as_secs(), error = why, "event put off");
                    store.event_later(event.id, now.add_duration(pause), &why).await?;
                    self.rest_for(if error.concerns_all() { pause } else { pause.min(MAX_SINGLE_EVENT_BACKOFF) });
                    return Ok(done);
                }
                None => {
                    tracing::error!(delivery = event.delivery, error = why, "event given up");
                    store.finish_event(event.id, EventOutcome::Failed, &why).await?;
                    done += 1;
                }
            }
        }
        Ok(done)
    }
}

/// Groups the events by thread, in order.
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

/// Returns how long to wait before a retry, if that can help.
pub(crate) fn retry_delay(error: &ApiError, tries: i64) -> Option<SignedDuration> {
    let delay = match error.retry_advice() {
        _ if tries >= MAX_EVENT_ATTEMPTS => return None,
        RetryAdvice::After(wait) => wait.max(Duration::from_secs(1)),
        RetryAdvice::Later => RETRY_BACKOFF.delay_after(tries),
        RetryAdvice::Never => return None,
    };
    Some(SignedDuration::try_from(delay).unwrap_or(LONGEST_RETRY_DELAY))
}

/// Returns the key that keeps events in order: their issue or pull request.
fn thread_of(event: &RawEvent) -> String {
    match parse_delivery(&event.kind, event.body.as_bytes()) {
        Ok(ParsedDelivery::Happened(event)) => event.repo.name.conversation_id(event.thread.number).to_lowercase(),
        _ => event.delivery.clone(),
    }
}
