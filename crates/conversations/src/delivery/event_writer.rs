//! Takes what platforms say, many at once: whoever comes while the store writes is written with the
//! next ones, in one transaction, so that a slow disk holds nobody up for long.

use grove_store::{NewEvent, Store, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Duration, Instant};

/// How many wait at most; more have to wait before they are taken.
const WAITING: usize = 1024;
/// How many are written together at most.
const TOGETHER: usize = 256;
/// A disk that takes so long is slow: it is worth while to wait a part of that for others.
const SLOW: Duration = Duration::from_millis(4);
/// No longer than that.
const PATIENCE: Duration = Duration::from_millis(5);

type Answer = oneshot::Sender<Result<bool, StoreError>>;

/// Where events are put. Cheap to clone.
#[derive(Clone)]
pub struct Letterbox {
    letters: mpsc::Sender<(NewEvent, Answer)>,
}

impl Letterbox {
    /// `new` is called whenever something new was kept.
    pub fn new(store: Store, new: impl Fn() + Send + Sync + 'static) -> Self {
        let (letters, taken) = mpsc::channel(WAITING);
        tokio::spawn(write(store, taken, new));
        Self { letters }
    }

    /// Keeps an event; it is in the store when this returns. Whether it is new.
    pub async fn keep(&self, event: NewEvent) -> Result<bool, StoreError> {
        let closed = || StoreError::Other("the letterbox is closed".to_owned());
        let (answer, kept) = oneshot::channel();
        self.letters.send((event, answer)).await.map_err(|_| closed())?;
        kept.await.map_err(|_| closed())?
    }
}

async fn write(store: Store, mut taken: mpsc::Receiver<(NewEvent, Answer)>, new: impl Fn() + Send + Sync) {
    let mut letters = Vec::new();
    // How long it took of late, and how many there were: whoever was just answered may come again.
    let (mut took, mut expected) = (Duration::ZERO, 0);
    while taken.recv_many(&mut letters, TOGETHER).await > 0 {
        if took >= SLOW {
            wait_for_others(&mut taken, &mut letters, expected, (took / 4).min(PATIENCE)).await;
        }
        let (events, answers): (Vec<NewEvent>, Vec<Answer>) = letters.drain(..).unzip();
        let began = Instant::now();
        let kept = store.keep_events(&events).await;
        (took, expected) = ((took * 3 + began.elapsed()) / 4, events.len() + taken.len());
        match kept {
            Ok(fresh) => {
                let any = fresh.contains(&true);
                // Whoever asked may have left.
                answers.into_iter().zip(fresh).for_each(|(answer, fresh)| _ = answer.send(Ok(fresh)));
                if any {
                    new();
                }
            }
            Err(_) => each(&store, &events, answers, &new).await,
        }
    }
}

/// Of two halves that write in turn, each would wait for the other: they are brought together.
async fn wait_for_others(
    taken: &mut mpsc::Receiver<(NewEvent, Answer)>,
    letters: &mut Vec<(NewEvent, Answer)>,
    expected: usize,
    patience: Duration,
) {
    let until = Instant::now() + patience;
    while letters.len() < expected.min(TOGETHER) {
        match tokio::time::timeout_at(until, taken.recv()).await {
            Ok(Some(letter)) => letters.push(letter),
            Ok(None) | Err(_) => return,
        }
    }
}

/// One bad event, or a store that is away, must not be everybody's answer.
async fn each(store: &Store, events: &[NewEvent], answers: Vec<Answer>, new: &(impl Fn() + Sync)) {
    for (event, answer) in events.iter().zip(answers) {
        let kept = store.keep_events(std::slice::from_ref(event)).await.map(|fresh| fresh == [true]);
        if matches!(kept, Ok(true)) {
            new();
        }
        let _ = answer.send(kept);
    }
}
