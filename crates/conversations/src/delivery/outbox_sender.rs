//! Sends the outbox to a platform: in order, once, and also as drafts where the platform wants them.
//!
//! The outbox is authoritative. A platform is asked to *show* a text under an id of ours, whether it already
//! has the text or not, so that repeating it after a crash changes nothing. One task does this for a
//! platform, so that a draft never overwrites the final answer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use grove_environments::lease::{OWNER_LEASE_DURATION, is_gone, this_process};
use grove_model::{Choice, MessageId, MessageStatus, Moment, OutboxKind, ProcessOwner};
use grove_store::{StoreError, UnsentMessage};
use jiff::SignedDuration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backoff::{Backoff, RETRY_BACKOFF};
use crate::conversations::{ConversationEvent, Conversations};
use crate::delivery::draft::AnswerDrafts;

/// The interval of polling without a notification, for texts of other processes.
const OUTBOX_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The number of texts that are loaded at once.
const OUTBOX_BATCH_SIZE: i64 = 50;
/// The pauses of a platform that names no time: it may refuse only a single text.
const PLATFORM_BACKOFF: Backoff = Backoff { longest: Duration::from_secs(10), ..RETRY_BACKOFF };
/// A text that only ever fails is given up after this many attempts, which take a week.
const MAX_DELIVERY_ATTEMPTS: i64 = 2_000;

/// A text for a platform to show.
#[derive(Clone, Debug)]
pub struct OutgoingText<'a> {
    /// The platform's own id of the conversation.
    pub conversation: &'a str,
    /// Our id of the text, by which it can be found on the platform.
    pub name: MessageId,
    /// The outbox entry, for a platform that records the parts of a text as they are sent
    /// (`Store::keep_sent_parts`); a draft has none.
    pub entry: Option<MessageId>,
    pub text: &'a str,
    /// The platform's id of the text, as returned by [`Platform::show_text`], if it was shown before.
    pub shown_as: Option<&'a str>,
    /// The text may be on the platform without a record of it: look for it first.
    pub uncertain: bool,
    /// The text is a draft.
    pub growing: bool,
    /// The question that the text asks, with the id of its entry, for buttons.
    pub choice: Option<(MessageId, &'a Choice)>,
}

/// A message whose answer is on the platform.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredMessage<'a> {
    pub conversation: &'a str,
    /// The id under which the adapter accepted the message.
    pub delivery: &'a str,
    pub status: MessageStatus,
}

/// The reason why a platform did not show a text.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// It may succeed later; if the platform named a time, not before that.
    #[error("{why}")]
    Later { after: Option<Duration>, why: String },
    #[error("{0}")]
    Never(String),
}

/// A platform where people read answers.
#[async_trait]
pub trait Platform: Send + Sync {
    /// The adapter's name.
    fn name(&self) -> &str;

    /// The minimum interval between updates of a draft; `None` if only complete answers are shown.
    fn draft_interval(&self) -> Option<Duration>;

    /// Shows a text by changing the existing one or adding a new one. Returns the platform's id of it.
    async fn show_text(&self, letter: &OutgoingText<'_>) -> Result<String, DeliveryError>;

    /// Marks a message as answered where the platform can show that, for example by a reaction. It is not
    /// retried.
    async fn mark_answered(&self, _message: AnsweredMessage<'_>) -> Result<(), DeliveryError> {
        Ok(())
    }
}

/// Sends until `ending` is set, and then everything that is ready.
pub async fn run_outbox(
    conversations: Arc<Conversations>,
    platform: Arc<dyn Platform>,
    mut ending: watch::Receiver<bool>,
) {
    let mut sender =
        OutboxSender { conversations: conversations.clone(), platform, rest_until: Instant::now(), failures: 0 };
    let mut drafts = AnswerDrafts::new(sender.platform.name(), sender.platform.draft_interval());
    let mut events = conversations.subscribe_events();
    let mut look = true;
    while !*ending.borrow_and_update() {
        if look {
            sender.send_all(&mut drafts).await;
        }
        let rest = sender.rest_until;
        look = tokio::select! {
            event = events.recv() => handle_event(event, &mut drafts, sender.platform.name()),
            () = drafts.wait_until_due(), if Instant::now() >= rest => {
                sender.send_all(&mut drafts).await;
                // The platform may have requested a pause since then.
                if Instant::now() >= sender.rest_until {
                    sender.show_drafts(&mut drafts).await;
                }
                false
            }
            () = tokio::time::sleep(OUTBOX_POLL_INTERVAL) => true,
            _ = ending.changed() => true,
        };
    }
    sender.send_all(&mut drafts).await;
}

/// Applies an event to the drafts. Returns whether there is something to send.
fn handle_event(event: Result<ConversationEvent, RecvError>, drafts: &mut AnswerDrafts, name: &str) -> bool {
    match event {
        Ok(ConversationEvent::Said { platform, answered, .. }) => {
            answered.into_iter().for_each(|message| drafts.end_draft(message));
            platform == name
        }
        Ok(event) => {
            drafts.apply_event(event);
            false
        }
        Err(RecvError::Lagged(_)) => true,
        Err(RecvError::Closed) => false,
    }
}

struct OutboxSender {
    conversations: Arc<Conversations>,
    platform: Arc<dyn Platform>,
    /// The end of the pause that the platform requested.
    rest_until: Instant,
    /// The number of failures in a row.
    failures: i64,
}

impl OutboxSender {
    /// Sends everything that is ready, until the platform refuses.
    async fn send_all(&mut self, drafts: &mut AnswerDrafts) {
        while Instant::now() >= self.rest_until {
            match self.send_some(drafts).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(platform = self.platform.name(), %error, "outbox not loaded");
                    return;
                }
            }
        }
    }

    /// Sends a batch. Returns whether anything was sent, in which case there may be more.
    async fn send_some(&mut self, drafts: &mut AnswerDrafts) -> Result<bool, StoreError> {
        let mut any = false;
        for unsent in self.conversations.store.next_unsent(self.platform.name(), OUTBOX_BATCH_SIZE).await? {
            if Instant::now() < self.rest_until {
                return Ok(false);
            }
            let now = Moment::now();
            // Another process is sending this text. A text with our own mark is from an earlier attempt that
            // was interrupted.
            let busy = |sender: &ProcessOwner| sender != this_process() && !is_gone(sender, unsent.sender_until, now);
            if unsent.sender.as_ref().is_some_and(busy)
                || !self
                    .conversations
                    .store
                    .take_unsent(&unsent, this_process(), now.add_duration(OWNER_LEASE_DURATION))
                    .await?
            {
                continue;
            }
            if let (OutboxKind::Answer, Some(message)) = (unsent.manner, unsent.message) {
                drafts.end_draft(message);
            }
            self.send_text(&unsent).await?;
            any = true;
        }
        Ok(any)
    }

    async fn send_text(&mut self, unsent: &UnsentMessage) -> Result<(), StoreError> {
        let store = self.conversations.store.clone();
        // An answer and its draft are the same text on the platform.
        let sent_parts = unsent.sent_parts.as_deref();
        let (name, shown_as, may_be_draft) = match (unsent.manner, unsent.message) {
            (OutboxKind::Answer, Some(message)) => {
                let unnoted = unsent.draft.is_none() && unsent.had_agent && self.platform.draft_interval().is_some();
                (message, sent_parts.or(unsent.draft.as_deref()), unnoted)
            }
            _ => (unsent.id, sent_parts, false),
        };
        let letter = OutgoingText {
            conversation: &unsent.conversation,
            name,
            entry: Some(unsent.id),
            text: &unsent.text,
            shown_as,
            uncertain: unsent.tries > 0 || may_be_draft,
            growing: false,
            choice: unsent.choice.as_ref().map(|choice| (unsent.id, choice)),
        };
        match self.platform.show_text(&letter).await {
            Ok(shown_as) => {
                self.failures = 0;
                store.mark_sent(unsent.id, &shown_as).await?;
                self.mark_answered(unsent).await;
                Ok(())
            }
            Err(DeliveryError::Later { after, why }) if unsent.tries < MAX_DELIVERY_ATTEMPTS => {
                self.back_off(after);
                let pause = after.unwrap_or(RETRY_BACKOFF.delay_after(unsent.tries));
                let (platform, conversation, pause_s) = (self.platform.name(), &unsent.conversation, pause.as_secs());
                tracing::warn!(platform, conversation, pause_s, error = why, "delivery put off");
                let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::from_secs(60));
                store.send_later(unsent.id, Moment::now().add_duration(pause), &why).await
            }
            Err(DeliveryError::Later { why, .. } | DeliveryError::Never(why)) => {
                let (platform, conversation) = (self.platform.name(), &unsent.conversation);
                tracing::error!(platform, conversation, error = why, "delivery given up");
                store.send_never(unsent.id, &why).await
            }
        }
    }

    async fn mark_answered(&self, unsent: &UnsentMessage) {
        let (OutboxKind::Answer, Some(delivery), Some(status)) = (unsent.manner, &unsent.delivery, unsent.status)
        else {
            return;
        };
        let message = AnsweredMessage { conversation: &unsent.conversation, delivery, status };
        if let Err(error) = self.platform.mark_answered(message).await {
            tracing::info!(platform = self.platform.name(), %error, "message not marked as answered");
        }
    }

    /// Pauses for as long as the platform requested, or a little longer each time.
    fn back_off(&mut self, after: Option<Duration>) {
        self.rest_until = Instant::now() + after.unwrap_or(PLATFORM_BACKOFF.delay_after(self.failures));
        self.failures = self.failures.saturating_add(1);
    }

    async fn show_drafts(&mut self, drafts: &mut AnswerDrafts) {
        for draft in drafts.take_ready() {
            // Earlier texts are sent first, or the draft would stay above them forever.
            match self.conversations.store.has_unsent(self.platform.name(), &draft.conversation).await {
                Ok(false) => {}
                Ok(true) => {
                    draft.put_off();
                    continue;
                }
                Err(error) => {
                    tracing::warn!(message_id = %draft.message, %error, "draft put off");
                    draft.put_off();
                    return;
                }
            }
            let letter = OutgoingText {
                conversation: &draft.conversation,
                name: draft.message,
                entry: None,
                text: &draft.shown_text(),
                shown_as: draft.shown_as.as_deref(),
                uncertain: draft.uncertain,
                growing: true,
                choice: None,
            };
            match self.platform.show_text(&letter).await {
                Ok(shown_as) => {
                    if draft.shown_as.as_ref() != Some(&shown_as) {
                        // If this fails, the draft is found again by its id.
                        if let Err(error) = self.conversations.store.keep_draft(draft.message, &shown_as).await {
                            tracing::warn!(message_id = %draft.message, %error, "draft not recorded");
                        }
                    }
                    draft.shown_as = Some(shown_as);
                    draft.uncertain = false;
                }
                Err(error) => {
                    // The complete answer is sent anyway.
                    tracing::info!(platform = self.platform.name(), message_id = %draft.message, %error, "draft not shown");
                    if let DeliveryError::Later { after, .. } = error {
                        draft.uncertain = true;
                        self.back_off(after);
                        return;
                    }
                }
            }
        }
    }
}
