//! Brings what was said to its platform: in order, once, and while it grows where people like that.
//!
//! The outbox is what counts. A platform is asked to *show* a text under a name of ours, whether it has
//! it already or not, so that doing it again after a crash changes nothing. One task does all of it for
//! a platform, so that a growing answer is never written over the final one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use grove_environments::lease::{LEASE, is_gone, this_process};
use grove_model::{MessageId, Moment, Owner};
use grove_store::{Manner, StoreError, Unsent};
use jiff::SignedDuration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::conversations::{TalkEvent, Talks};
use crate::delivery::draft::Drafts;

/// How often is looked without being told to: for what another process said.
const LOOK: Duration = Duration::from_secs(2);
/// How much is looked at together.
const TOGETHER: i64 = 50;
/// What comes after a failure, doubled each time, and at most.
const PAUSE: (u64, u64) = (2, 300);
/// A platform that does not say when is left alone for no longer than that, in seconds: what it does
/// not take may be one letter.
const REST: u64 = 10;
/// After so many tries, which is a week, something that only ever fails is given up.
const TRIES: i64 = 2_000;

/// A text that a platform is to show.
#[derive(Clone, Debug)]
pub struct Letter<'a> {
    /// The platform's own id of the conversation.
    pub conversation: &'a str,
    /// Our name for it, by which it can be found there.
    pub name: MessageId,
    pub text: &'a str,
    /// What it is called there, as [`Platform::show`] gave it, if it was shown before.
    pub shown_as: Option<&'a str>,
    /// It may be there although nobody noted it: look first.
    pub uncertain: bool,
    /// It still grows.
    pub growing: bool,
}

/// Why a platform did not show something.
#[derive(Debug, thiserror::Error)]
pub enum NotShown {
    /// It may go later; if the platform said when, then not before.
    #[error("{why}")]
    Later { after: Option<Duration>, why: String },
    #[error("{0}")]
    Never(String),
}

/// Somewhere that people read.
#[async_trait]
pub trait Platform: Send + Sync {
    /// The adapter's name.
    fn name(&self) -> &str;

    /// How often a growing answer may be shown anew; `None`: answers come whole.
    fn pace(&self) -> Option<Duration>;

    /// Shows a text, by changing what is there or by adding to it; what it is called there then.
    async fn show(&self, letter: &Letter<'_>) -> Result<String, NotShown>;
}

/// Sends until `ending` says so, and then what is ready.
pub async fn serve(talks: Arc<Talks>, platform: Arc<dyn Platform>, mut ending: watch::Receiver<bool>) {
    let mut sender = Sender { talks: talks.clone(), platform, rest_until: Instant::now(), failures: 0 };
    let mut drafts = Drafts::new(sender.platform.name(), sender.platform.pace());
    let mut events = talks.watch();
    let mut look = true;
    while !*ending.borrow_and_update() {
        if look {
            sender.send_all(&mut drafts).await;
        }
        let rest = sender.rest_until;
        look = tokio::select! {
            event = events.recv() => heard(event, &mut drafts, sender.platform.name()),
            () = drafts.due(), if Instant::now() >= rest => {
                sender.send_all(&mut drafts).await;
                // It may want to be left alone since then.
                if Instant::now() >= sender.rest_until {
                    sender.show_drafts(&mut drafts).await;
                }
                false
            }
            () = tokio::time::sleep(LOOK) => true,
            _ = ending.changed() => true,
        };
    }
    sender.send_all(&mut drafts).await;
}

/// Whether there is something to send.
fn heard(event: Result<TalkEvent, RecvError>, drafts: &mut Drafts, name: &str) -> bool {
    match event {
        Ok(TalkEvent::Said { platform, answered, .. }) => {
            answered.into_iter().for_each(|message| drafts.end(message));
            platform == name
        }
        Ok(event) => {
            drafts.hear(event);
            false
        }
        Err(RecvError::Lagged(_)) => true,
        Err(RecvError::Closed) => false,
    }
}

struct Sender {
    talks: Arc<Talks>,
    platform: Arc<dyn Platform>,
    /// The platform wants to be left alone until then.
    rest_until: Instant,
    /// How often in a row it failed.
    failures: i64,
}

impl Sender {
    /// Sends whatever is ready, as long as the platform takes it.
    async fn send_all(&mut self, drafts: &mut Drafts) {
        while Instant::now() >= self.rest_until {
            match self.send_some(drafts).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!("what is to be sent to {} could not be looked at: {error}", self.platform.name());
                    return;
                }
            }
        }
    }

    /// Whether anything was sent, so that there may be more behind it.
    async fn send_some(&mut self, drafts: &mut Drafts) -> Result<bool, StoreError> {
        let mut any = false;
        for unsent in self.talks.store.unsent(self.platform.name(), TOGETHER).await? {
            if Instant::now() < self.rest_until {
                return Ok(false);
            }
            let now = Moment::now();
            // Somebody else is at it. What is ours is from an earlier try that was cut short.
            let busy = |sender: &Owner| sender != this_process() && !is_gone(sender, unsent.sender_until, now);
            if unsent.sender.as_ref().is_some_and(busy)
                || !self.talks.store.take_unsent(&unsent, this_process(), now.plus(LEASE)).await?
            {
                continue;
            }
            if let (Manner::Answer, Some(message)) = (unsent.manner, unsent.message) {
                drafts.end(message);
            }
            self.send(&unsent).await?;
            any = true;
        }
        Ok(any)
    }

    async fn send(&mut self, unsent: &Unsent) -> Result<(), StoreError> {
        let store = self.talks.store.clone();
        // An answer and what it grew from are one thing there.
        let (name, shown_as, may_be_draft) = match (unsent.manner, unsent.message) {
            (Manner::Answer, Some(message)) => {
                let unnoted = unsent.draft.is_none() && unsent.had_agent && self.platform.pace().is_some();
                (message, unsent.draft.as_deref(), unnoted)
            }
            _ => (unsent.id, None, false),
        };
        let letter = Letter {
            conversation: &unsent.conversation,
            name,
            text: &unsent.text,
            shown_as,
            uncertain: unsent.tries > 0 || may_be_draft,
            growing: false,
        };
        match self.platform.show(&letter).await {
            Ok(shown_as) => {
                self.failures = 0;
                store.sent(unsent.id, &shown_as).await
            }
            Err(NotShown::Later { after, why }) if unsent.tries < TRIES => {
                self.rest(after);
                let pause = after.unwrap_or(doubled(unsent.tries, PAUSE.1));
                let (platform, pause_s) = (self.platform.name(), pause.as_secs());
                tracing::warn!("{platform} does not take an answer at the moment, again in {pause_s} s: {why}");
                let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::from_secs(60));
                store.send_later(unsent.id, Moment::now().plus(pause), &why).await
            }
            Err(NotShown::Later { why, .. } | NotShown::Never(why)) => {
                tracing::error!("{} does not take an answer, it stays in the store: {why}", self.platform.name());
                store.send_never(unsent.id, &why).await
            }
        }
    }

    /// Leaves the platform alone for as long as it said, or a little longer each time.
    fn rest(&mut self, after: Option<Duration>) {
        self.rest_until = Instant::now() + after.unwrap_or(doubled(self.failures, REST));
        self.failures = self.failures.saturating_add(1);
    }

    async fn show_drafts(&mut self, drafts: &mut Drafts) {
        for draft in drafts.ready() {
            // Whatever was said before it comes first, or it would stand above that for ever.
            match self.talks.store.has_unsent(self.platform.name(), &draft.conversation).await {
                Ok(false) => {}
                Ok(true) => {
                    draft.put_off();
                    continue;
                }
                Err(error) => {
                    tracing::warn!("whether a growing answer may be shown is not known: {error}");
                    draft.put_off();
                    return;
                }
            }
            let letter = Letter {
                conversation: &draft.conversation,
                name: draft.message,
                text: &draft.text(),
                shown_as: draft.shown_as.as_deref(),
                uncertain: draft.uncertain,
                growing: true,
            };
            match self.platform.show(&letter).await {
                Ok(shown_as) => {
                    if draft.shown_as.as_ref() != Some(&shown_as) {
                        // Found again by its name if this fails.
                        if let Err(error) = self.talks.store.keep_draft(draft.message, &shown_as).await {
                            tracing::warn!("a growing answer could not be noted: {error}");
                        }
                    }
                    draft.shown_as = Some(shown_as);
                    draft.uncertain = false;
                }
                Err(error) => {
                    // The whole answer comes anyway.
                    tracing::info!("{} does not show a growing answer: {error}", self.platform.name());
                    if let NotShown::Later { after, .. } = error {
                        draft.uncertain = true;
                        self.rest(after);
                        return;
                    }
                }
            }
        }
    }
}

/// What comes after so many failures.
fn doubled(failures: i64, most: u64) -> Duration {
    Duration::from_secs(PAUSE.0.saturating_mul(1 << failures.clamp(0, 16)).min(most))
}
