//! One turn: one message of one conversation, from the inbox to its answer.

mod after;
mod agent;
mod closed;
mod custom;
mod folder;
mod pushed;
mod register;
mod run;
mod session;
mod snapshot;
mod stream;

use std::convert::Infallible;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use grove_agents::agent::Cancel;
use grove_environments::environments::Isolation;
use grove_environments::error::IsolationError;
use grove_environments::lease::LEASE;
use grove_environments::problem::Problem;
use grove_git::OnWait;
use grove_model::{ConversationId, Event, Moment, WorkError};
use grove_store::{Conversation, End, Message, StoreError, TurnKey};
use tokio::sync::{mpsc, watch};

use crate::commands::{self, Deed, Parsed};
use crate::conversations::{TalkEvent, Talks};
use crate::replies;
use crate::turn::after::Left;
use crate::turn::agent::Written;
use crate::turn_context::Desk;

/// A message that ends the program this often before it was answered is set aside.
const TRIES: i64 = 3;

/// How long an answer waits for the store.
const KEEP_TRYING: Duration = Duration::from_secs(10 * 60);

/// How often we say that we are at it, and ask whether we should stop.
const BEAT: Duration = Duration::from_secs(1);

/// What a message came to.
pub struct Ending {
    /// `None`: nothing is to be said, which only an event may be.
    pub answer: Option<String>,
    pub end: End,
    /// What is pushed after it was said.
    pub left: Option<Box<Left>>,
}

impl Ending {
    pub fn new(answer: Option<String>, end: End) -> Self {
        Self { answer, end, left: None }
    }

    pub fn done(answer: impl Into<String>) -> Self {
        Self::new(Some(answer.into()), End::Done)
    }

    pub fn refused(problem: &Problem) -> Self {
        Self::new(Some(replies::problem(problem)), End::Refused)
    }

    pub fn silent() -> Self {
        Self::new(None, End::Done)
    }

    /// Somebody said `/stop` before an agent had begun.
    pub fn stopped() -> Self {
        Self::new(Some(replies::stopped("")), End::Interrupted)
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

impl Broken {
    /// There is no place for an agent.
    pub fn blocked(error: IsolationError) -> Self {
        match error {
            IsolationError::Store(error) => Broken::Store(error),
            other => Broken::Problem(replies::blocked(other.into())),
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
        let mut running = self.talks.running.lock().unwrap_or_else(PoisonError::into_inner);
        // Only our own entry: it may be somebody else's turn already.
        if running.get(&self.conversation).is_some_and(|cancel| cancel.same_channel(&self.cancel)) {
            running.remove(&self.conversation);
        }
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
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(BEAT).await;
            match self.store.wants_stop(key.conversation).await {
                Ok(true) => _ = cancel.send_replace(Some(Cancel::Stopped)),
                Ok(false) => {}
                Err(error) => tracing::warn!("a turn could not be looked at: {error}"),
            }
            if renewed.elapsed() < LEASE.unsigned_abs() / 4 {
                continue;
            }
            let asked = Instant::now();
            match self.store.renew_turn(key, Moment::now().plus(LEASE)).await {
                Ok(true) => renewed = asked,
                Ok(false) => _ = cancel.send_replace(Some(Cancel::LostTurn)),
                Err(error) => tracing::warn!("a turn could not be kept: {error}"),
            }
            // Others may have it by now: better nobody than two.
            if renewed.elapsed() > LEASE.unsigned_abs() {
                cancel.send_replace(Some(Cancel::LostTurn));
            }
        }
    }

    async fn one_message(&self, key: &TurnKey, cancelled: watch::Receiver<Option<Cancel>>) -> Result<(), StoreError> {
        let Some(message) = self.store.begin_message(key).await? else { return Ok(()) };
        let Some(conversation) = self.store.conversation(key.conversation).await? else { return Ok(()) };
        let (waits, mut waited_for) = mpsc::unbounded_channel();
        // Only this message's own words wait for it; a channel that is closed needs them no longer.
        let on_wait = OnWait::new(move |remote| drop(waits.send(remote.to_owned())));
        let desk = Desk { talks: self, conversation: &conversation, message: &message, on_wait };
        let ending = match self.verdict_on(&message) {
            Some(ending) => ending,
            None => match desk.begin_telling_of_waits(key, cancelled, &mut waited_for).await {
                Ok(ending) => ending,
                Err(Broken::Problem(problem)) => Ending::refused(&problem),
                Err(Broken::Store(error)) => return Err(error),
                Err(Broken::PutBack) => return self.store.put_back(key, message.id).await,
            },
        };
        let answer = ending.answer.map(|text| self.redactor.clean(&text));
        self.keep_answer(key, &message, answer.as_deref(), ending.end).await?;
        self.said(&conversation, Some(message.id));
        self.tell_watchers(TalkEvent::Worktrees);
        if let Some(left) = ending.left {
            Box::pin(desk.push_left(key, &left)).await;
        }
        Ok(())
    }

    /// What an agent may have worked for an hour on is not lost because the store is away or busy for
    /// a while.
    async fn keep_answer(
        &self,
        key: &TurnKey,
        message: &Message,
        answer: Option<&str>,
        end: End,
    ) -> Result<(), StoreError> {
        let began = Instant::now();
        loop {
            match self.store.answer(key, message.id, answer, end).await {
                Err(StoreError::LostTurn) => return Err(StoreError::LostTurn),
                Err(error) if began.elapsed() < KEEP_TRYING => {
                    tracing::warn!("an answer could not be kept yet: {error}");
                    tokio::time::sleep(BEAT).await;
                }
                done => return done,
            }
        }
    }

    /// What is said of a message that was begun before, if it is not to be run now.
    fn verdict_on(&self, message: &Message) -> Option<Ending> {
        let set_aside = message.tries >= TRIES;
        let text = match &message.event {
            Event::Message { text, .. } => self.redactor.clean(text),
            Event::Closed { .. } | Event::Pushed { .. } => {
                return set_aside.then_some(Ending::new(None, End::Failed));
            }
        };
        if message.agent_at.is_some() && !self.settings.retry_on_restart() {
            return Some(Ending::new(Some(replies::interrupted(&text)), End::Interrupted));
        }
        set_aside.then(|| Ending::new(Some(replies::set_aside(&text)), End::Failed))
    }
}

impl Desk<'_> {
    /// Begins, and says meanwhile which remote it waits for.
    async fn begin_telling_of_waits(
        &self,
        key: &TurnKey,
        cancelled: watch::Receiver<Option<Cancel>>,
        waited_for: &mut mpsc::UnboundedReceiver<String>,
    ) -> Result<Ending, Broken> {
        let mut begun = Box::pin(self.begin(key, cancelled));
        loop {
            tokio::select! {
                ending = &mut begun => return ending,
                Some(remote) = waited_for.recv() => {
                    self.say(key, &[grove_environments::words::done::waiting_for_remote(&remote)]).await?;
                }
            }
        }
    }

    /// What is about a repository that is not registered yet makes it a codebase first.
    async fn begin(&self, key: &TurnKey, cancelled: watch::Receiver<Option<Cancel>>) -> Result<Ending, Broken> {
        let Some(repository) = self.wanted_repository() else { return self.dispatch(key, cancelled).await };
        if let Some(ending) = self.register(key, repository, &cancelled).await? {
            return Ok(ending);
        }
        let (talks, message, on_wait) = (self.talks, self.message, self.on_wait.clone());
        let Some(conversation) = talks.store.conversation(key.conversation).await? else { return Ok(Ending::silent()) };
        Desk { talks, conversation: &conversation, message, on_wait }.dispatch(key, cancelled).await
    }

    async fn dispatch(&self, key: &TurnKey, cancelled: watch::Receiver<Option<Cancel>>) -> Result<Ending, Broken> {
        match &self.message.event {
            Event::Closed { merged } => self.closed(*merged).await,
            Event::Pushed { head } => self.pushed(head).await,
            Event::Message { text, context, hints } => match commands::parse(text)? {
                Parsed::Retry => Box::pin(self.retry(key, cancelled)).await,
                Parsed::Do(deed) => {
                    let written = Written { text, context: context.as_deref(), hints };
                    self.carry_out(key, deed, written, cancelled).await
                }
            },
        }
    }

    /// Does what somebody wrote.
    async fn carry_out(
        &self,
        key: &TurnKey,
        deed: Deed,
        written: Written<'_>,
        cancelled: watch::Receiver<Option<Cancel>>,
    ) -> Result<Ending, Broken> {
        match deed {
            Deed::Words => Box::pin(self.work(key, written.into(), cancelled)).await,
            Deed::Custom(call) => Box::pin(self.custom(key, &call, written, cancelled)).await,
            Deed::Command(command) => Ok(Ending::done(commands::run(self, command).await?)),
        }
    }

    /// Runs the last message again that was cut short; a wish to do so is none itself.
    async fn retry(&self, key: &TurnKey, cancelled: watch::Receiver<Option<Cancel>>) -> Result<Ending, Broken> {
        let store = &self.talks.store;
        for earlier in store.cut_short(self.conversation.id, self.message.seq).await? {
            let Event::Message { text, context, hints } = &earlier.event else { continue };
            let Ok(Parsed::Do(deed)) = commands::parse(text) else { continue };
            let written = Written { text, context: context.as_deref(), hints };
            let ending = self.carry_out(key, deed, written, cancelled).await?;
            if ending.end == End::Done {
                store.retried(key, earlier.id).await?;
            }
            return Ok(ending);
        }
        Ok(Ending::new(Some(replies::NOTHING_TO_RETRY.to_owned()), End::Refused))
    }

    /// Says words on the way.
    pub(super) async fn say(&self, key: &TurnKey, notices: &[String]) -> Result<(), StoreError> {
        if notices.is_empty() {
            return Ok(());
        }
        let clean: Vec<String> = notices.iter().map(|text| self.talks.redactor.clean(text)).collect();
        self.talks.store.say(key, self.message.id, &clean).await?;
        self.talks.said(self.conversation, None);
        Ok(())
    }

    /// Makes environments, telling of remotes that let it wait.
    pub fn isolation(&self) -> Isolation {
        self.talks.isolation.clone().telling_of_waits(self.on_wait.clone())
    }

    pub fn reference(&self) -> grove_store::ConversationRef {
        Conversation::reference(self.conversation)
    }
}
