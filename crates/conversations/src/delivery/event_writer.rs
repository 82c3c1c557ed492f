//! Writes events of platforms in batches: events that arrive during a write go into the next transaction
//! together, so that a slow disk blocks no sender for long.

use grove_store::{NewEvent, Store, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Duration, Instant};

/// The maximum number of waiting events; further senders have to wait for a place.
const MAX_WAITING_EVENTS: usize = 1024;
/// The maximum number of events per transaction.
const MAX_EVENTS_PER_WRITE: usize = 256;
/// A write that takes this long means a slow disk: waiting a part of that time for more events is
/// worthwhile.
const SLOW_WRITE_THRESHOLD: Duration = Duration::from_millis(4);
/// The maximum time to wait for more events.
const MAX_BATCH_WAIT: Duration = Duration::from_millis(5);

type WriteResultSender = oneshot::Sender<Result<bool, StoreError>>;

/// Accepts events. Cheap to clone.
#[derive(Clone)]
pub struct EventWriter {
    letters: mpsc::Sender<(NewEvent, WriteResultSender)>,
}

impl EventWriter {
    /// Creates a writer, which calls `new` whenever a new event was stored.
    pub fn new(store: Store, new: impl Fn() + Send + Sync + 'static) -> Self {
        let (letters, taken) = mpsc::channel(MAX_WAITING_EVENTS);
        tokio::spawn(write_events(store, taken, new));
        Self { letters }
    }

    /// Stores an event; it is in the store when this returns. Returns whether it is new.
    pub async fn store_event(&self, event: NewEvent) -> Result<bool, StoreError> {
        let closed = || StoreError::Other("the event writer is closed".to_owned());
        let (answer, kept) = oneshot::channel();
        self.letters.send((event, answer)).await.map_err(|_| closed())?;
        kept.await.map_err(|_| closed())?
    }
}

async fn write_events(
    store: Store,
    mut taken: mpsc::Receiver<(NewEvent, WriteResultSender)>,
    new: impl Fn() + Send + Sync,
) {
    let mut letters = Vec::new();
    // The duration of the last write and its number of events: the senders that just got a result may send
    // again.
    let (mut took, mut expected) = (Duration::ZERO, 0);
    while taken.recv_many(&mut letters, MAX_EVENTS_PER_WRITE).await > 0 {
        if took >= SLOW_WRITE_THRESHOLD {
            wait_for_others(&mut taken, &mut letters, expected, (took / 4).min(MAX_BATCH_WAIT)).await;
        }
        let (events, answers): (Vec<NewEvent>, Vec<WriteResultSender>) = letters.drain(..).unzip();
        let began = Instant::now();
        let kept = store.keep_events(&events).await;
        (took, expected) = ((took * 3 + began.elapsed()) / 4, events.len() + taken.len());
        match kept {
            Ok(fresh) => {
                let any = fresh.contains(&true);
                // The sender may have stopped waiting.
                answers.into_iter().zip(fresh).for_each(|(answer, fresh)| _ = answer.send(Ok(fresh)));
                if any {
                    new();
                }
            }
            Err(_) => write_each_event(&store, &events, answers, &new).await,
        }
    }
}

/// Waits for further events. Without this, two groups of senders that write in turn would each wait for the
/// other; this brings them together.
async fn wait_for_others(
    taken: &mut mpsc::Receiver<(NewEvent, WriteResultSender)>,
    letters: &mut Vec<(NewEvent, WriteResultSender)>,
    expected: usize,
    patience: Duration,
) {
    let until = Instant::now() + patience;
    while letters.len() < expected.min(MAX_EVENTS_PER_WRITE) {
        match tokio::time::timeout_at(until, taken.recv()).await {
            Ok(Some(letter)) => letters.push(letter),
            Ok(None) | Err(_) => return,
        }
    }
}

/// Writes each event on its own, so that one bad event, or a store that is down, does not decide the result
/// of all.
async fn write_each_event(
    store: &Store,
    events: &[NewEvent],
    answers: Vec<WriteResultSender>,
    new: &(impl Fn() + Sync),
) {
    for (event, answer) in events.iter().zip(answers) {
        let kept = store.keep_events(std::slice::from_ref(event)).await.map(|fresh| fresh == [true]);
        if matches!(kept, Ok(true)) {
            new();
        }
        let _ = answer.send(kept);
    }
}
