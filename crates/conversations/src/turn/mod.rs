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

use grove_agents::agent::CancelReason;
use grove_environments::environments::Environments;
use grove_environments::error::EnvironmentError;
use grove_environments::lease::OWNER_LEASE_DURATION;
use grove_environments::problem::Problem;
use grove_git::WaitCallback;
use grove_model::{ConversationId, IncomingPayload, Moment, WorkError};
use grove_store::{Conversation, InboxMessage, InboxOutcome, StoreError, TurnKey};
use tokio::sync::{mpsc, watch};

use crate::commands::{self, Action, ParsedMessage};
use crate::conversations::{ConversationEvent, Conversations};
use crate::replies;
use crate::turn::after::PushCandidate;
use crate::turn::agent::WrittenMessage;
use crate::turn_context::TurnContext;

/// A message that crashes the program this often before it is answered is set aside.
const MAX_TURN_ATTEMPTS: i64 = 3;

/// The time during which storing an answer is retried.
const STORE_RETRY_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The interval of renewing the lease and checking for a request to stop.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// The outcome of a message.
pub struct TurnOutcome {
    /// `None` if there is no reply, which is allowed only for an event.
    pub answer: Option<String>,
    pub end: InboxOutcome,
    /// The commits to push after the reply.
    pub left: Option<Box<PushCandidate>>,
}

impl TurnOutcome {
    pub fn new(answer: Option<String>, end: InboxOutcome) -> Self {
        Self { answer, end, left: None }
    }

    pub fn from_answer(answer: impl Into<String>) -> Self {
        Self::new(Some(answer.into()), InboxOutcome::Done)
    }

    pub fn from_problem(problem: &Problem) -> Self {
        Self::new(Some(replies::problem_reply(problem)), InboxOutcome::Refused)
    }

    pub fn without_answer() -> Self {
        Self::new(None, InboxOutcome::Done)
    }

    /// Returns the outcome for a user's `/stop` before an agent started.
    pub fn stopped_early() -> Self {
        Self::new(Some(replies::stopped_notice("")), InboxOutcome::Interrupted)
    }
}

/// The reason why a turn stops without an answer.
pub enum TurnError {
    /// The store did not answer, or another process owns the turn: the message is handled later.
    Store(StoreError),
    /// The answer describes this problem.
    Problem(Problem),
    /// The turn has not started and starts no more: it waits for the next start of the program.
    PutBack,
}

impl From<StoreError> for TurnError {
    fn from(error: StoreError) -> Self {
        TurnError::Store(error)
    }
}

impl From<Problem> for TurnError {
    fn from(problem: Problem) -> Self {
        TurnError::Problem(problem)
    }
}

impl From<EnvironmentError> for TurnError {
    fn from(error: EnvironmentError) -> Self {
        match error {
            EnvironmentError::Store(error) => TurnError::Store(error),
            other => TurnError::Problem(other.into()),
        }
    }
}

impl TurnError {
    /// Converts the error that there is no environment for an agent.
    pub fn from_blocked(error: EnvironmentError) -> Self {
        match error {
            EnvironmentError::Store(error) => TurnError::Store(error),
            other => TurnError::Problem(replies::blocked_problem(other.into())),
        }
    }
}

impl From<WorkError> for TurnError {
    fn from(error: WorkError) -> Self {
        TurnError::Problem(error.into())
    }
}

/// Marks a conversation as handled by this process while this value lives; a panic in the turn ends it too.
pub(super) struct RunningTurn {
    conversations: Arc<Conversations>,
    conversation: ConversationId,
    cancel: watch::Sender<Option<CancelReason>>,
}

impl RunningTurn {
    pub fn new(conversations: &Arc<Conversations>, conversation: ConversationId) -> Self {
        let cancel = watch::Sender::new(None);
        conversations.running.lock().unwrap_or_else(PoisonError::into_inner).insert(conversation, cancel.clone());
        Self { conversations: conversations.clone(), conversation, cancel }
    }
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        let mut running = self.conversations.running.lock().unwrap_or_else(PoisonError::into_inner);
        // Removes only our own entry: another turn may have replaced it already.
        if running.get(&self.conversation).is_some_and(|cancel| cancel.same_channel(&self.cancel)) {
            running.remove(&self.conversation);
        }
    }
}

impl Conversations {
    /// Takes one message of the conversation and answers it.
    #[tracing::instrument(name = "turn", skip_all, fields(conversation = %key.conversation))]
    pub(super) async fn run_turn(&self, key: TurnKey, running: RunningTurn) {
        let done = tokio::select! {
            done = self.one_message(&key, running.cancel.subscribe()) => done,
            never = self.renew_turn_lease(&key, &running.cancel) => match never {},
        };
        match done {
            Ok(()) => {}
            Err(StoreError::LostTurn) => tracing::warn!("a conversation went on elsewhere"),
            Err(error) => {
                tracing::error!(%error, "turn failed");
                // Pauses before the next attempt: the store may need a moment.
                tokio::time::sleep(HEARTBEAT_INTERVAL).await;
            }
        }
        if let Err(error) = self.store.release_turn(&key).await {
            tracing::error!("a turn could not be given back: {error}");
        }
        // Dropped only now: until then no other task of this process takes the conversation.
        drop(running);
    }

    /// Renews the lease of the turn, and handles a request to stop that another process accepted. Never
    /// ends.
    async fn renew_turn_lease(&self, key: &TurnKey, cancel: &watch::Sender<Option<CancelReason>>) -> Infallible {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(HEARTBEAT_INTERVAL).await;
            match self.store.wants_stop(key.conversation).await {
                Ok(true) => _ = cancel.send_replace(Some(CancelReason::Stopped)),
                Ok(false) => {}
                Err(error) => tracing::warn!("a turn could not be looked at: {error}"),
            }
            if renewed.elapsed() < OWNER_LEASE_DURATION.unsigned_abs() / 4 {
                continue;
            }
            let asked = Instant::now();
            match self.store.renew_turn(key, Moment::now().add_duration(OWNER_LEASE_DURATION)).await {
                Ok(true) => renewed = asked,
                Ok(false) => _ = cancel.send_replace(Some(CancelReason::LostTurn)),
                Err(error) => tracing::warn!("a turn could not be kept: {error}"),
            }
            // Another process may own the turn by now: no turn is better than two.
            if renewed.elapsed() > OWNER_LEASE_DURATION.unsigned_abs() {
                cancel.send_replace(Some(CancelReason::LostTurn));
            }
        }
    }

    async fn one_message(
        &self,
        key: &TurnKey,
        cancelled: watch::Receiver<Option<CancelReason>>,
    ) -> Result<(), StoreError> {
        let Some(message) = self.store.begin_message(key).await? else { return Ok(()) };
        let Some(conversation) = self.store.find_conversation(key.conversation).await? else { return Ok(()) };
        let (waits, mut waited_for) = mpsc::unbounded_channel();
        // Only notices of this message use the callback; a closed channel needs them no longer.
        let on_wait = WaitCallback::new(move |remote| drop(waits.send(remote.to_owned())));
        let context = TurnContext { conversations: self, conversation: &conversation, message: &message, on_wait };
        let ending = match self.verdict_on(&message) {
            Some(ending) => ending,
            None => match context.begin_telling_of_waits(key, cancelled, &mut waited_for).await {
                Ok(ending) => ending,
                Err(TurnError::Problem(problem)) => TurnOutcome::from_problem(&problem),
                Err(TurnError::Store(error)) => return Err(error),
                Err(TurnError::PutBack) => return self.store.put_back(key, message.id).await,
            },
        };
        let answer = ending.answer.map(|text| self.redactor.redact_text(&text));
        self.keep_answer(key, &message, answer.as_deref(), ending.end).await?;
        self.announce_reply(&conversation, Some(message.id));
        self.tell_watchers(ConversationEvent::Worktrees);
        if let Some(left) = ending.left {
            Box::pin(context.push_left(key, &left)).await;
        }
        Ok(())
    }

    /// Retries to store the answer: an agent may have worked on it for an hour, and a store that is down or
    /// busy for a while must not lose it.
    async fn keep_answer(
        &self,
        key: &TurnKey,
        message: &InboxMessage,
        answer: Option<&str>,
        end: InboxOutcome,
    ) -> Result<(), StoreError> {
        let began = Instant::now();
        loop {
            match self.store.answer_message(key, message.id, answer, end).await {
                Err(StoreError::LostTurn) => return Err(StoreError::LostTurn),
                Err(error) if began.elapsed() < STORE_RETRY_TIMEOUT => {
                    tracing::warn!("an answer could not be kept yet: {error}");
                    tokio::time::sleep(HEARTBEAT_INTERVAL).await;
                }
                done => return done,
            }
        }
    }

    /// Returns the outcome of a message that was started before, if it is not to be run again.
    fn verdict_on(&self, message: &InboxMessage) -> Option<TurnOutcome> {
        let set_aside = message.tries >= MAX_TURN_ATTEMPTS;
        let text = match &message.event {
            IncomingPayload::Message { text, .. } => self.redactor.redact_text(text),
            IncomingPayload::Closed { .. } | IncomingPayload::Pushed { .. } => {
                return set_aside.then_some(TurnOutcome::new(None, InboxOutcome::Failed));
            }
        };
        if message.agent_at.is_some() && !self.settings.retry_on_restart() {
            return Some(TurnOutcome::new(Some(replies::interrupted_notice(&text)), InboxOutcome::Interrupted));
        }
        set_aside.then(|| TurnOutcome::new(Some(replies::set_aside(&text)), InboxOutcome::Failed))
    }
}

impl TurnContext<'_> {
    /// Begins the turn, and meanwhile reports which remote it waits for.
    async fn begin_telling_of_waits(
        &self,
        key: &TurnKey,
        cancelled: watch::Receiver<Option<CancelReason>>,
        waited_for: &mut mpsc::UnboundedReceiver<String>,
    ) -> Result<TurnOutcome, TurnError> {
        let mut begun = Box::pin(self.begin_turn(key, cancelled));
        loop {
            tokio::select! {
                ending = &mut begun => return ending,
                Some(remote) = waited_for.recv() => {
                    self.send_notices(key, &[grove_environments::words::done::waiting_for_remote(&remote)]).await?;
                }
            }
        }
    }

    /// Begins the turn. If the message is about a repository that is not registered yet, registers it first.
    async fn begin_turn(
        &self,
        key: &TurnKey,
        cancelled: watch::Receiver<Option<CancelReason>>,
    ) -> Result<TurnOutcome, TurnError> {
        let Some(repository) = self.wanted_repository() else { return self.dispatch_event(key, cancelled).await };
        if let Some(ending) = self.register_repository(key, repository, &cancelled).await? {
            return Ok(ending);
        }
        let (conversations, message, on_wait) = (self.conversations, self.message, self.on_wait.clone());
        let Some(conversation) = conversations.store.find_conversation(key.conversation).await? else {
            return Ok(TurnOutcome::without_answer());
        };
        TurnContext { conversations, conversation: &conversation, message, on_wait }
            .dispatch_event(key, cancelled)
            .await
    }

    async fn dispatch_event(
        &self,
        key: &TurnKey,
        cancelled: watch::Receiver<Option<CancelReason>>,
    ) -> Result<TurnOutcome, TurnError> {
        match &self.message.event {
            IncomingPayload::Closed { merged } => self.handle_closed(*merged).await,
            IncomingPayload::Pushed { head } => self.handle_pushed(head).await,
            IncomingPayload::Message { text, context, hints } => match commands::parse_message(text)? {
                ParsedMessage::Retry => Box::pin(self.retry_last_message(key, cancelled)).await,
                ParsedMessage::Do(deed) => {
                    let written = WrittenMessage { text, context: context.as_deref(), hints };
                    self.perform_action(key, deed, written, cancelled).await
                }
            },
        }
    }

    /// Carries out the message.
    async fn perform_action(
        &self,
        key: &TurnKey,
        deed: Action,
        written: WrittenMessage<'_>,
        cancelled: watch::Receiver<Option<CancelReason>>,
    ) -> Result<TurnOutcome, TurnError> {
        match deed {
            Action::Words => Box::pin(self.answer_with_agent(key, written.into(), cancelled)).await,
            Action::Custom(call) => Box::pin(self.run_custom_command(key, &call, written, cancelled)).await,
            Action::Command(command) => Ok(TurnOutcome::from_answer(commands::run_command(self, command).await?)),
        }
    }

    /// Runs the last interrupted message again; a retry command itself does not count.
    async fn retry_last_message(
        &self,
        key: &TurnKey,
        cancelled: watch::Receiver<Option<CancelReason>>,
    ) -> Result<TurnOutcome, TurnError> {
        let store = &self.conversations.store;
        for earlier in store.cut_short(self.conversation.id, self.message.seq).await? {
            let IncomingPayload::Message { text, context, hints } = &earlier.event else { continue };
            let Ok(ParsedMessage::Do(deed)) = commands::parse_message(text) else { continue };
            let written = WrittenMessage { text, context: context.as_deref(), hints };
            let ending = self.perform_action(key, deed, written, cancelled).await?;
            if ending.end == InboxOutcome::Done {
                store.mark_retried(key, earlier.id).await?;
            }
            return Ok(ending);
        }
        Ok(TurnOutcome::new(Some(replies::NOTHING_TO_RETRY_REPLY.to_owned()), InboxOutcome::Refused))
    }

    /// Writes notices while the turn runs.
    pub(super) async fn send_notices(&self, key: &TurnKey, notices: &[String]) -> Result<(), StoreError> {
        if notices.is_empty() {
            return Ok(());
        }
        let clean: Vec<String> = notices.iter().map(|text| self.conversations.redactor.redact_text(text)).collect();
        self.conversations.store.post_notices(key, self.message.id, &clean).await?;
        self.conversations.announce_reply(self.conversation, None);
        Ok(())
    }

    /// Returns environments whose creation reports slow remotes as notices.
    pub fn environments_with_notices(&self) -> Environments {
        self.conversations.environments.clone().telling_of_waits(self.on_wait.clone())
    }

    pub fn conversation_ref(&self) -> grove_store::ConversationRef {
        Conversation::conversation_ref(self.conversation)
    }
}
