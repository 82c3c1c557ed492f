//! One turn: one message of one conversation, from the inbox to its answer.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use grove_model::{ConversationId, Event, Moment, WorkError};
use grove_store::{Conversation, End, Message, StoreError, TurnKey};
use tokio::sync::watch;

use super::{Desk, TalkEvent, Talks};
use crate::agent::Cancel;
use crate::commands::{self, Parsed};
use crate::isolation::IsolationError;
use crate::owner::LEASE;
use crate::{Problem, reply_text};

/// A message that ends the program this often before it was answered is set aside.
const TRIES: i64 = 3;

/// How often we say that we are at it, and ask whether we should stop.
const BEAT: Duration = Duration::from_secs(1);

/// What a message came to.
pub struct Ending {
    /// `None`: nothing is to be said, which only an event may be.
    pub answer: Option<String>,
    pub end: End,
}

impl Ending {
    pub fn done(answer: impl Into<String>) -> Self {
        Self { answer: Some(answer.into()), end: End::Done }
    }

    pub fn refused(problem: &Problem) -> Self {
        Self { answer: Some(reply_text::problem(problem)), end: End::Refused }
    }

    pub fn silent() -> Self {
        Self { answer: None, end: End::Done }
    }
}

/// Why a turn stops without an answer.
pub enum Broken {
    /// The store did not answer, or the turn is another process's: what it was goes on later.
    Store(StoreError),
    /// The answer is this problem.
    Problem(Problem),
    /// It has not begun yet, and does not begin any more: it waits for the next start.
    PutBack,
}

impl From<StoreError> for Broken {
    fn from(error: StoreError) -> Self {
        Broken::Store(error)
    }
}

impl From<Problem> for Broken {
    fn from(problem: Problem) -> Self {
        Broken::Problem(problem)
    }
}

impl From<IsolationError> for Broken {
    fn from(error: IsolationError) -> Self {
        match error {
            IsolationError::Store(error) => Broken::Store(error),
            other => Broken::Problem(other.into()),
        }
    }
}

impl From<WorkError> for Broken {
    fn from(error: WorkError) -> Self {
        Broken::Problem(error.into())
    }
}

/// A conversation that this process works on, for as long as this value lives; also a turn that
/// panics ends it.
pub(super) struct Running {
    talks: Arc<Talks>,
    conversation: ConversationId,
    cancel: watch::Sender<Option<Cancel>>,
}

impl Running {
    pub fn new(talks: &Arc<Talks>, conversation: ConversationId) -> Self {
        let cancel = watch::Sender::new(None);
        talks.running.lock().unwrap_or_else(PoisonError::into_inner).insert(conversation, cancel.clone());
        Self { talks: talks.clone(), conversation, cancel }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.talks.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.conversation);
    }
}

impl Talks {
    /// Takes one message of the conversation and answers it.
    pub(super) async fn turn(&self, key: TurnKey, running: Running) {
        let done = tokio::select! {
            done = self.one_message(&key, running.cancel.subscribe()) => done,
            never = self.beat(&key, &running.cancel) => match never {},
        };
        match done {
            Ok(()) => {}
            Err(StoreError::LostTurn) => tracing::warn!("a conversation went on elsewhere"),
            Err(error) => {
                tracing::error!("a message could not be worked on: {error}");
                // Not at once again: the store may need a moment.
                tokio::time::sleep(BEAT).await;
            }
        }
        if let Err(error) = self.store.release_turn(&key).await {
            tracing::error!("a turn could not be given back: {error}");
        }
        // Only now: until then nobody else of this process takes it.
        drop(running);
    }

    /// Keeps the turn ours, and hears of a wish to stop that another process took. Never ends.
    async fn beat(&self, key: &TurnKey, cancel: &watch::Sender<Option<Cancel>>) -> Infallible {
        let mut beats = 0_u64;
        loop {
            tokio::time::sleep(BEAT).await;
            beats += 1;
            match self.store.wants_stop(key.conversation).await {
                Ok(true) => _ = cancel.send_replace(Some(Cancel::Stopped)),
                Ok(false) => {}
                Err(error) => tracing::warn!("a turn could not be looked at: {error}"),
            }
            if beats.is_multiple_of(15) {
                match self.store.renew_turn(key, Moment::now().plus(LEASE)).await {
                    Ok(true) => {}
                    Ok(false) => _ = cancel.send_replace(Some(Cancel::LostTurn)),
                    Err(error) => tracing::warn!("a turn could not be kept: {error}"),
                }
            }
        }
    }

    async fn one_message(&self, key: &TurnKey, cancelled: watch::Receiver<Option<Cancel>>) -> Result<(), StoreError> {
        let Some(message) = self.store.begin_message(key).await? else { return Ok(()) };
        let Some(conversation) = self.store.conversation(key.conversation).await? else { return Ok(()) };
        let desk = Desk { talks: self, conversation: &conversation, message: &message };
        let ending = match self.verdict_on(&message) {
            Some(ending) => ending,
            None => match Box::pin(desk.dispatch(key, cancelled)).await {
                Ok(ending) => ending,
                Err(Broken::Problem(problem)) => Ending::refused(&problem),
                Err(Broken::Store(error)) => return Err(error),
                Err(Broken::PutBack) => return self.store.put_back(key, message.id).await,
            },
        };
        let answer = ending.answer.map(|text| self.redactor.clean(&text));
        self.store.answer(key, message.id, &[], answer.as_deref(), ending.end).await?;
        self.said(&conversation);
        self.tell_watchers(TalkEvent::Worktrees);
        Ok(())
    }

    /// What is said of a message that was begun before, if it is not to be run now.
    fn verdict_on(&self, message: &Message) -> Option<Ending> {
        let text = match &message.event {
            Event::Message { text, .. } => text.as_str(),
            Event::Closed { .. } => return None,
        };
        if message.agent_at.is_some() && !self.settings.retry_on_restart() {
            return Some(Ending { answer: Some(reply_text::interrupted(text)), end: End::Interrupted });
        }
        (message.tries >= TRIES).then(|| Ending { answer: Some(reply_text::set_aside(text)), end: End::Failed })
    }
}

impl Desk<'_> {
    async fn dispatch(&self, key: &TurnKey, cancelled: watch::Receiver<Option<Cancel>>) -> Result<Ending, Broken> {
        match &self.message.event {
            Event::Closed { merged } => self.closed(*merged).await,
            Event::Message { text, context, hints } => match commands::parse(text)? {
                Parsed::Words => {
                    let said = super::work::Said { text, context: context.as_deref(), hints };
                    self.work(key, said, cancelled).await
                }
                Parsed::Retry => Box::pin(self.retry(key, cancelled)).await,
                Parsed::Command(command) => Ok(Ending::done(commands::run(self, command).await?)),
            },
        }
    }

    /// Runs the last message again that was cut short.
    async fn retry(&self, key: &TurnKey, cancelled: watch::Receiver<Option<Cancel>>) -> Result<Ending, Broken> {
        let store = &self.talks.store;
        let earlier = store.last_cut_short(self.conversation.id, self.message.seq).await?;
        match earlier.map(|message| message.event) {
            Some(Event::Message { text, context, hints }) => {
                let said = super::work::Said { text: &text, context: context.as_deref(), hints: &hints };
                self.work(key, said, cancelled).await
            }
            _ => Ok(Ending { answer: Some(reply_text::NOTHING_TO_RETRY.to_owned()), end: End::Refused }),
        }
    }

    /// Says words on the way.
    pub(super) async fn say(&self, key: &TurnKey, notices: &[String]) -> Result<(), StoreError> {
        if notices.is_empty() {
            return Ok(());
        }
        let clean: Vec<String> = notices.iter().map(|text| self.talks.redactor.clean(text)).collect();
        self.talks.store.say(key, self.message.id, &clean).await?;
        self.talks.said(self.conversation);
        Ok(())
    }

    pub fn reference(&self) -> grove_store::ConversationRef {
        Conversation::reference(self.conversation)
    }
}
