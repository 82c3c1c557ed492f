//! Who is next.

use std::sync::Arc;
use std::time::Duration;

use grove_agents::agent::Cancel;
use grove_environments::lease::{LEASE, is_gone, this_process};
use grove_model::Moment;
use grove_store::{StoreError, TurnKey};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::conversations::Talks;
use crate::replies;
use crate::turn::Running;

/// How often messages that another process took are looked for.
const LOOK: Duration = Duration::from_secs(1);

/// How long running turns may go on when the program is asked to end.
pub const DRAIN: Duration = Duration::from_secs(30);

/// How long a turn may take to end after its agent was told to.
const LAST: Duration = Duration::from_secs(10);

impl Talks {
    /// Works on whatever waits, until `ending` says so; then waits for what runs, and ends it if that
    /// takes too long. What still waits stays in the store.
    pub async fn serve(self: &Arc<Self>, mut ending: watch::Receiver<bool>) {
        let mut turns: JoinSet<()> = JoinSet::new();
        let most = self.settings.max_conversations();
        while !*ending.borrow_and_update() {
            if let Err(error) = self.hand_out(&mut turns, most).await {
                tracing::warn!("the queue could not be looked at: {error}");
            }
            tokio::select! {
                () = self.wake.notified() => {}
                Some(ended) = turns.join_next() => log_panic(ended),
                () = tokio::time::sleep(LOOK) => {}
                _ = ending.changed() => {}
            }
        }
        self.ending.send_replace(true);
        tracing::info!("ending: {} turns are still running", turns.len());
        let (drain, last) = (Instant::now() + DRAIN, Instant::now() + DRAIN + LAST);
        // A wish to stop is still heard.
        while !turns.is_empty() && Instant::now() < last {
            if Instant::now() >= drain {
                self.cancel_all(Cancel::Draining);
            }
            if let Err(error) = self.hear_stops().await {
                tracing::warn!("the queue could not be looked at: {error}");
            }
            tokio::select! {
                Some(ended) = turns.join_next() => log_panic(ended),
                () = tokio::time::sleep(Duration::from_millis(200)) => {}
            }
        }
    }

    async fn hand_out(self: &Arc<Self>, turns: &mut JoinSet<()>, most: usize) -> Result<(), StoreError> {
        self.hear_stops().await?;
        loop {
            // Whoever has ended takes no place any more.
            while let Some(ended) = turns.try_join_next() {
                log_panic(ended);
            }
            if turns.len() >= most {
                return self.tell_places(most).await;
            }
            let Some(key) = self.next_turn().await? else { return Ok(()) };
            let talks = self.clone();
            // Known as running before anybody looks again.
            let running = Running::new(&talks, key.conversation);
            turns.spawn(async move {
                Box::pin(talks.turn(key, running)).await;
                talks.wake.notify_one();
            });
        }
    }

    /// The conversation that waits longest and that nobody works on, if we can have it.
    async fn next_turn(&self) -> Result<Option<TurnKey>, StoreError> {
        let now = Moment::now();
        for waiting in self.store.waiting_conversations().await? {
            let free = match waiting.owner.as_ref().filter(|owner| *owner != this_process()) {
                // Nobody's, or ours: also one that we are giving back, or could not give back.
                None => !self.is_running(waiting.conversation),
                Some(owner) => is_gone(owner, waiting.until, now),
            };
            if !free || !self.is_for_us(waiting.conversation) {
                continue;
            }
            if let Some(key) = self.store.take_turn(&waiting, this_process(), now.plus(LEASE)).await? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Everybody who waits only because all places are taken is told so, once.
    async fn tell_places(&self, most: usize) -> Result<(), StoreError> {
        for (place, queued) in (1..).zip(self.store.waiting_for_a_place().await?) {
            if queued.told {
                continue;
            }
            let Some(conversation) = self.store.conversation(queued.conversation).await? else { continue };
            if self.store.tell(&queued, &replies::queued(place, most)).await? {
                self.said(&conversation, None);
            }
        }
        Ok(())
    }

    /// `/stop` does not wait for its turn.
    async fn hear_stops(&self) -> Result<(), StoreError> {
        for message in self.store.overtaking().await? {
            let Some(conversation) = self.store.conversation(message.conversation).await? else { continue };
            let Some(runs) = self.store.answer_overtaking(&message, replies::stopping).await? else { continue };
            if runs {
                self.cancel(message.conversation, Cancel::Stopped);
            }
            self.said(&conversation, None);
        }
        Ok(())
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!("a turn ended badly: {error}");
    }
}
