//! The queue: which conversation has the next turn.

use std::sync::Arc;
use std::time::Duration;

use grove_agents::agent::CancelReason;
use grove_environments::lease::{OWNER_LEASE_DURATION, is_gone, this_process};
use grove_model::Moment;
use grove_store::{StoreError, TurnKey};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::conversations::Conversations;
use crate::replies;
use crate::turn::RunningTurn;

/// The interval of polling for messages that another process accepted.
const QUEUE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The time that running turns may continue when the program is asked to shut down.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that a turn has to end after its agent was cancelled.
const CANCELLED_TURN_TIMEOUT: Duration = Duration::from_secs(10);

impl Conversations {
    /// Runs waiting turns until `ending` is set; then waits for running turns, and cancels them if that
    /// takes too long. Waiting messages stay in the store.
    pub async fn run_queue(self: &Arc<Self>, mut ending: watch::Receiver<bool>) {
        let mut turns: JoinSet<()> = JoinSet::new();
        while !*ending.borrow_and_update() {
            let most = self.settings.current().max_conversations();
            if let Err(error) = self.hand_out(&mut turns, most).await {
                tracing::warn!(%error, "queue not loaded");
            }
            tokio::select! {
                () = self.wake.notified() => {}
                Some(ended) = turns.join_next() => log_panic(ended),
                () = tokio::time::sleep(QUEUE_POLL_INTERVAL) => {}
                _ = ending.changed() => {}
            }
        }
        self.ending.send_replace(true);
        tracing::info!(turns = turns.len(), "shutting down");
        let (drain, last) = (Instant::now() + DRAIN_TIMEOUT, Instant::now() + DRAIN_TIMEOUT + CANCELLED_TURN_TIMEOUT);
        // A request to stop is still handled.
        while !turns.is_empty() && Instant::now() < last {
            if Instant::now() >= drain {
                self.cancel_all(CancelReason::Draining);
            }
            if let Err(error) = self.hear_stops().await {
                tracing::warn!(%error, "queue not loaded");
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
            // A finished turn frees its slot.
            while let Some(ended) = turns.try_join_next() {
                log_panic(ended);
            }
            if turns.len() >= most {
                return self.tell_places(most).await;
            }
            let Some(key) = self.next_turn().await? else { return Ok(()) };
            let conversations = self.clone();
            // Marked as running before the queue is read again.
            let turn = RunningTurn::new(&conversations, key);
            turns.spawn(async move {
                Box::pin(conversations.run_turn(turn)).await;
                conversations.wake.notify_one();
            });
        }
    }

    /// Returns the conversation that waits longest and that no process works on, if we can lease it.
    async fn next_turn(&self) -> Result<Option<TurnKey>, StoreError> {
        let now = Moment::now();
        for waiting in self.store.waiting_conversations().await? {
            let free = match waiting.owner.as_ref().filter(|owner| *owner != this_process()) {
                // Not leased, or leased by us: this includes leases that we are releasing or failed to
                // release.
                None => !self.is_running(waiting.conversation),
                Some(owner) => is_gone(owner, waiting.until, now),
            };
            if !free || !self.is_for_us(waiting.conversation) {
                continue;
            }
            if let Some(key) =
                self.store.take_turn(&waiting, this_process(), now.add_duration(OWNER_LEASE_DURATION)).await?
            {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Tells each conversation that waits only because all slots are taken its position, once.
    async fn tell_places(&self, most: usize) -> Result<(), StoreError> {
        for (place, queued) in (1..).zip(self.store.waiting_for_a_place().await?) {
            if queued.told {
                continue;
            }
            let Some(conversation) = self.store.find_conversation(queued.conversation).await? else { continue };
            if self.store.notify_waiting(&queued, &replies::queued_notice(place, most)).await? {
                self.announce_reply(&conversation, None);
            }
        }
        Ok(())
    }

    /// Handles `/stop`, which does not wait for its turn.
    async fn hear_stops(&self) -> Result<(), StoreError> {
        for message in self.store.overtaking_messages().await? {
            let Some(conversation) = self.store.find_conversation(message.conversation).await? else { continue };
            let Some(runs) = self.store.answer_overtaking(&message, replies::stopping_notice).await? else { continue };
            if runs {
                self.cancel_turn(message.conversation, CancelReason::Stopped);
            }
            self.announce_reply(&conversation, None);
        }
        Ok(())
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "turn panicked");
    }
}
