//! Takes what platforms say, many at once: whoever comes while the store writes is written with the
//! next ones, in one transaction, so that a slow disk holds nobody up for long.

use grove_store::{NewEvent, Store, StoreError};
use tokio::sync::{mpsc, oneshot};

/// How many wait at most; more have to wait before they are taken.
const WAITING: usize = 1024;
/// How many are written together at most.
const TOGETHER: usize = 256;

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
    while taken.recv_many(&mut letters, TOGETHER).await > 0 {
        let (events, answers): (Vec<NewEvent>, Vec<Answer>) = letters.drain(..).unzip();
        match store.keep_events(&events).await {
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
