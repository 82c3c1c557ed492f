//! Events of a platform, from the store to their handler: threads in parallel, the events of each thread in
//! order. An event that cannot be handled now is retried, and the events behind it in its thread wait.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::StreamExt;
use grove_conversations::backoff::RETRY_BACKOFF;
use grove_conversations::conversations::Conversations;
use grove_conversations::delivery::event_writer::EventWriter;
use grove_environments::lease::{OWNER_LEASE_DURATION, is_gone, this_process};
use grove_model::{EventOutcome, Moment, ProcessOwner};
use grove_store::{NewEvent, RawEvent, StoreError};
use jiff::SignedDuration;
use tokio::sync::{Notify, watch};

use crate::retry::RetryAdvice;

/// The interval of polling the store without a notification.
const EVENT_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The number of events that are loaded at once.
const EVENT_BATCH_SIZE: i64 = 100;
/// The number of threads that are handled at once.
const MAX_CONCURRENT_THREADS: usize = 8;
/// An event that only ever fails is given up after this many attempts, which take a week.
const MAX_EVENT_ATTEMPTS: i64 = 2_000;
/// The maximum pause of all requests because of a single event that the platform does not answer.
const MAX_SINGLE_EVENT_BACKOFF: SignedDuration = SignedDuration::from_secs(10);
/// The pause after an error that says nothing about a retry.
pub const LONGEST_RETRY_DELAY: SignedDuration = SignedDuration::from_secs(300);

/// The reason why an event was not handled.
#[derive(Debug, thiserror::Error)]
pub enum HandleError {
    #[error("{why}")]
    Failed {
        advice: RetryAdvice,
        /// Every other request would fail, too.
        concerns_all: bool,
        why: String,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HandleError {
    /// Creates the error of an event that can never be handled.
    pub fn hopeless(why: impl Into<String>) -> Self {
        Self::Failed { advice: RetryAdvice::Never, concerns_all: false, why: why.into() }
    }
}

/// Handles the events of one platform.
#[async_trait]
pub trait EventHandler: Send + Sync {
    /// Returns the key that keeps events in order: those with one key are handled one after another.
    fn thread_of(&self, event: &RawEvent) -> String;

    /// Handles one event, and returns the result in a few words.
    async fn handle_event(&self, event: &RawEvent) -> Result<String, HandleError>;

    /// Prepares the handler, for example by looking up our own account. Returns whether events can be handled;
    /// if not, the handler has asked the queue to pause. `failures` counts the attempts in a row that failed.
    async fn prepare(&self, _failures: i64) -> bool {
        true
    }
}

/// The stored events of one platform.
pub struct EventQueue {
    platform: &'static str,
    conversations: Arc<Conversations>,
    writer: EventWriter,
    /// Notified when a new event was stored.
    new: Arc<Notify>,
    /// No request is sent to the platform until then.
    pause_until: Mutex<Instant>,
}

impl EventQueue {
    pub fn new(platform: &'static str, conversations: &Arc<Conversations>) -> Self {
        let new = Arc::new(Notify::new());
        let wake = new.clone();
        Self {
            platform,
            conversations: conversations.clone(),
            writer: EventWriter::new(conversations.store.clone(), move || wake.notify_one()),
            new,
            pause_until: Mutex::new(Instant::now()),
        }
    }

    /// Stores an event; it is in the store when this returns. Returns whether it is new.
    pub async fn store_event(&self, delivery: String, kind: String, body: String) -> Result<bool, StoreError> {
        self.writer.store_event(NewEvent { platform: self.platform.to_owned(), delivery, kind, body }).await
    }

    /// Wakes the worker for events that were stored in another way.
    pub fn wake_worker(&self) {
        self.new.notify_one();
    }

    /// Returns the end of the pause: no request is sent before it, because the platform asked for that or did
    /// not answer.
    pub fn paused_until(&self) -> Instant {
        *self.pause_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn pause_for(&self, pause: SignedDuration) {
        let until = Instant::now() + pause.unsigned_abs();
        let mut pause_until = self.pause_until.lock().unwrap_or_else(PoisonError::into_inner);
        *pause_until = until.max(*pause_until);
    }

    /// Handles stored events until `ending` is set.
    pub async fn run_worker(&self, handler: &dyn EventHandler, mut ending: watch::Receiver<bool>) {
        let mut failures = 0;
        while !*ending.borrow_and_update() {
            let rest = self.paused_until().saturating_duration_since(Instant::now());
            if rest.is_zero() {
                if !handler.prepare(failures).await {
                    failures += 1;
                    continue;
                }
                failures = 0;
                match self.handle_waiting(handler).await {
                    // There may be more events.
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(error) => tracing::warn!(platform = self.platform, %error, "stored events not loaded"),
                }
            }
            tokio::select! {
                () = self.new.notified(), if rest.is_zero() => {}
                () = tokio::time::sleep(if rest.is_zero() { EVENT_POLL_INTERVAL } else { rest }) => {}
                _ = ending.changed() => {}
            }
        }
    }

    /// Handles waiting events. Returns whether any of them was finished.
    async fn handle_waiting(&self, handler: &dyn EventHandler) -> Result<bool, StoreError> {
        let (mut after, mut stuck) = (None, HashSet::new());
        loop {
            let waiting = self.conversations.store.waiting_events(self.platform, after, EVENT_BATCH_SIZE).await?;
            after = waiting.last().map(|last| last.id);
            let is_last = waiting.len() < usize::try_from(EVENT_BATCH_SIZE).unwrap_or(usize::MAX);
            let threads = by_thread(handler, waiting).into_iter().filter(|(thread, _)| !stuck.contains(thread));
            let worked = futures_util::stream::iter(threads.collect::<Vec<_>>())
                .map(|(thread, events)| async move {
                    let done = self.handle_thread(handler, &events).await?;
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
            if any || is_last || self.paused_until() > Instant::now() {
                return Ok(any);
            }
        }
    }

    /// Handles the events of one thread in order: one that cannot be handled now blocks the following ones.
    /// Returns how many were finished.
    async fn handle_thread(&self, handler: &dyn EventHandler, events: &[RawEvent]) -> Result<usize, StoreError> {
        let (store, redactor) = (&self.conversations.store, &self.conversations.redactor);
        let mut done = 0;
        for event in events {
            let now = Moment::now();
            let busy = |worker: &ProcessOwner| worker != this_process() && !is_gone(worker, event.worker_until, now);
            if self.paused_until() > Instant::now()
                || event.not_before.is_some_and(|not_before| now < not_before)
                || event.worker.as_ref().is_some_and(busy)
                || !store.take_event(event, this_process(), now.add_duration(OWNER_LEASE_DURATION)).await?
            {
                return Ok(done);
            }
            let (advice, concerns_all, why) = match handler.handle_event(event).await {
                Ok(outcome) => {
                    store.finish_event(event.id, EventOutcome::Done, &redactor.redact_text(&outcome)).await?;
                    done += 1;
                    continue;
                }
                Err(HandleError::Store(error)) => return Err(error),
                Err(HandleError::Failed { advice, concerns_all, why }) => (advice, concerns_all, why),
            };
            let why = redactor.redact_text(&why);
            let (platform, delivery) = (self.platform, &event.delivery);
            match retry_delay(advice, event.tries) {
                Some(pause) => {
                    tracing::warn!(platform, delivery, pause_s = pause.as_secs(), error = why, "event put off");
                    store.event_later(event.id, now.add_duration(pause), &why).await?;
                    self.pause_for(if concerns_all { pause } else { pause.min(MAX_SINGLE_EVENT_BACKOFF) });
                    return Ok(done);
                }
                None => {
                    tracing::error!(platform, delivery, error = why, "event given up");
                    store.finish_event(event.id, EventOutcome::Failed, &why).await?;
                    done += 1;
                }
            }
        }
        Ok(done)
    }
}

/// Groups the events by thread, in order.
fn by_thread(handler: &dyn EventHandler, events: Vec<RawEvent>) -> Vec<(String, Vec<RawEvent>)> {
    let mut threads: Vec<(String, Vec<RawEvent>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for event in events {
        let thread = handler.thread_of(&event);
        let place = *places.entry(thread.clone()).or_insert_with(|| {
            threads.push((thread, Vec::new()));
            threads.len() - 1
        });
        threads[place].1.push(event);
    }
    threads
}

/// Returns how long to wait before a retry, if that can help.
pub fn retry_delay(advice: RetryAdvice, tries: i64) -> Option<SignedDuration> {
    let delay = match advice {
        _ if tries >= MAX_EVENT_ATTEMPTS => return None,
        RetryAdvice::After(wait) => wait.max(Duration::from_secs(1)),
        RetryAdvice::Later => RETRY_BACKOFF.delay_after(tries),
        RetryAdvice::Never => return None,
    };
    Some(SignedDuration::try_from(delay).unwrap_or(LONGEST_RETRY_DELAY))
}
