//! One turn: one message of one conversation, from the inbox to its answer.

mod after;
mod agent;
mod closed;
mod command;
mod custom;
mod folder;
mod kept;
mod pushed;
mod register;
mod run;
mod session;
mod snapshot;
mod stream;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use grove_agents::agent::CancelReason;
use grove_environments::codebases::Codebases;
use grove_environments::environments::Environments;
use grove_environments::error::EnvironmentError;
use grove_environments::init::InitOutcome;
use grove_environments::lease::OWNER_LEASE_DURATION;
use grove_environments::problem::Problem;
use grove_environments::words::done;
use grove_git::{GitProgress, ProgressCallback};
use grove_model::{Choice, Codebase, Environment, IncomingPayload, Moment, WorkError};
use grove_store::{Conversation, InboxOutcome, StoreError, TurnKey};
use tokio::sync::{mpsc, watch};

use crate::commands::parse::parse_message;
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

/// The shortest time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// The outcome of a message.
pub struct TurnOutcome {
    /// `None` if there is no reply, which is allowed only for an event.
    pub answer: Option<String>,
    pub end: InboxOutcome,
    /// The question that the answer asks, if it has a fixed set of answers.
    pub choice: Option<Choice>,
    /// The commits to push after the reply.
    pub left: Option<Box<PushCandidate>>,
}

impl TurnOutcome {
    pub fn new(answer: Option<String>, end: InboxOutcome) -> Self {
        let choice = (end == InboxOutcome::Interrupted).then(replies::retry_choice);
        Self { answer, end, choice, left: None }
    }

    pub fn from_answer(answer: impl Into<String>) -> Self {
        Self::new(Some(answer.into()), InboxOutcome::Done)
    }

    pub fn from_problem(problem: &Problem) -> Self {
        Self::new(Some(replies::problem_reply(problem)), InboxOutcome::Refused)
    }

    /// Returns the outcome of a message that is kept until a codebase is chosen.
    pub fn asking_for_codebase(choice: Choice) -> Self {
        let answer = replies::choose_codebase(&choice);
        Self { choice: Some(choice), ..Self::new(Some(answer), InboxOutcome::Asked) }
    }

    /// Returns the outcome of a message that is kept until a script is approved.
    pub fn asking_for_approval(path: &str) -> Self {
        let choice = replies::approval_choice(path);
        Self { choice: Some(choice), ..Self::new(Some(replies::approval_question(path)), InboxOutcome::Asked) }
    }

    /// Returns the outcome of a refused removal, which can be repeated with force.
    pub fn offering_force(problem: &Problem, name: Option<&str>) -> Self {
        Self { choice: Some(replies::remove_anyway_choice(name)), ..Self::from_problem(problem) }
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

/// A turn that this process holds. It marks the conversation as handled while this value lives; a panic in
/// the turn ends it too.
pub(super) struct RunningTurn {
    conversations: Arc<Conversations>,
    key: TurnKey,
    cancel: watch::Sender<Option<CancelReason>>,
}

impl RunningTurn {
    pub fn new(conversations: &Arc<Conversations>, key: TurnKey) -> Self {
        let cancel = watch::Sender::new(None);
        let mut running = conversations.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(key.conversation, cancel.clone());
        Self { conversations: conversations.clone(), key, cancel }
    }
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        let mut running = self.conversations.running.lock().unwrap_or_else(PoisonError::into_inner);
        // Removes only our own entry: another turn may have replaced it already.
        if running.get(&self.key.conversation).is_some_and(|cancel| cancel.same_channel(&self.cancel)) {
            running.remove(&self.key.conversation);
        }
    }
}

impl Conversations {
    /// Takes one message of the conversation and answers it.
    #[tracing::instrument(name = "turn", skip_all, fields(conversation = %turn.key.conversation))]
    pub(super) async fn run_turn(&self, turn: RunningTurn) {
        let done = tokio::select! {
            done = self.one_message(&turn) => done,
            never = self.renew_turn_lease(&turn) => match never {},
        };
        match done {
            Ok(()) => {}
            Err(StoreError::LostTurn) => tracing::warn!("turn taken over by another process"),
            Err(error) => {
                tracing::error!(%error, "turn failed");
                // Pauses before the next attempt: the store may need a moment.
                tokio::time::sleep(HEARTBEAT_INTERVAL).await;
            }
        }
        if let Err(error) = self.store.release_turn(&turn.key).await {
            tracing::error!(%error, "turn not released");
        }
        // Dropped only now: until then no other task of this process takes the conversation.
        drop(turn);
    }

    /// Renews the lease of the turn, and handles a request to stop that another process accepted. Never
    /// ends.
    async fn renew_turn_lease(&self, RunningTurn { key, cancel, .. }: &RunningTurn) -> Infallible {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(HEARTBEAT_INTERVAL).await;
            match self.store.wants_stop(key.conversation).await {
                Ok(true) => _ = cancel.send_replace(Some(CancelReason::Stopped)),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "stop request not checked"),
            }
            if renewed.elapsed() < OWNER_LEASE_DURATION.unsigned_abs() / 4 {
                continue;
            }
            let asked = Instant::now();
            match self.store.renew_turn(key, Moment::now().add_duration(OWNER_LEASE_DURATION)).await {
                Ok(true) => renewed = asked,
                Ok(false) => _ = cancel.send_replace(Some(CancelReason::LostTurn)),
                Err(error) => tracing::warn!(%error, "turn lease not renewed"),
            }
            // Another process may own the turn by now: no turn is better than two.
            if renewed.elapsed() > OWNER_LEASE_DURATION.unsigned_abs() {
                cancel.send_replace(Some(CancelReason::LostTurn));
            }
        }
    }

    async fn one_message(&self, RunningTurn { key, cancel, .. }: &RunningTurn) -> Result<(), StoreError> {
        let Some(message) = self.store.begin_message(key).await? else { return Ok(()) };
        let Some(conversation) = self.store.find_conversation(key.conversation).await? else { return Ok(()) };
        let (reports, mut heard) = mpsc::unbounded_channel();
        // Only this message uses the callback; a closed channel needs no reports any more.
        let on_progress = ProgressCallback::new(move |progress| drop(reports.send(progress)));
        let context = TurnContext {
            conversations: self,
            conversation: &conversation,
            message: &message,
            key,
            cancelled: cancel.subscribe(),
            on_progress,
        };
        let ending = match context.verdict_on_message() {
            Some(ending) => ending,
            None => match context.begin_reporting_progress(&mut heard).await {
                Ok(ending) => ending,
                Err(TurnError::Problem(problem)) => TurnOutcome::from_problem(&problem),
                Err(TurnError::Store(error)) => return Err(error),
                Err(TurnError::PutBack) => return self.store.put_back(key, message.id).await,
            },
        };
        let answer = ending.answer.map(|text| self.redactor.redact_text(&text));
        context.keep_answer(answer.as_deref(), ending.choice.as_ref(), ending.end).await?;
        self.announce_reply(&conversation, Some(message.id));
        self.tell_watchers(ConversationEvent::Worktrees);
        if let Some(left) = ending.left {
            Box::pin(context.push_left(&left)).await;
        }
        Ok(())
    }
}

impl TurnContext<'_> {
    /// Retries to store the answer: an agent may have worked on it for an hour, and a store that is down or
    /// busy for a while must not lose it.
    async fn keep_answer(
        &self,
        answer: Option<&str>,
        choice: Option<&Choice>,
        end: InboxOutcome,
    ) -> Result<(), StoreError> {
        let began = Instant::now();
        loop {
            match self.conversations.store.answer_message(self.key, self.message.id, answer, choice, end).await {
                Err(StoreError::LostTurn) => return Err(StoreError::LostTurn),
                Err(error) if began.elapsed() < STORE_RETRY_TIMEOUT => {
                    tracing::warn!(message_id = %self.message.id, %error, "answer not stored yet");
                    tokio::time::sleep(HEARTBEAT_INTERVAL).await;
                }
                done => return done,
            }
        }
    }

    /// Returns the outcome of a message that was started before, if it is not to be run again.
    fn verdict_on_message(&self) -> Option<TurnOutcome> {
        let (conversations, message) = (self.conversations, self.message);
        let set_aside = message.tries >= MAX_TURN_ATTEMPTS;
        let text = match &message.event {
            IncomingPayload::Message { text, .. } => conversations.redactor.redact_text(text),
            IncomingPayload::Closed { .. } | IncomingPayload::Pushed { .. } => {
                return set_aside.then_some(TurnOutcome::new(None, InboxOutcome::Failed));
            }
        };
        if message.agent_at.is_some() && !conversations.settings.current().retry_on_restart() {
            return Some(TurnOutcome::new(Some(replies::interrupted_notice(&text)), InboxOutcome::Interrupted));
        }
        set_aside.then(|| TurnOutcome::new(Some(replies::set_aside(&text)), InboxOutcome::Failed))
    }

    /// Begins the turn. Meanwhile it says which remote it waits for, and tells watchers how far a clone, fetch
    /// or checkout is.
    async fn begin_reporting_progress(
        &self,
        heard: &mut mpsc::UnboundedReceiver<GitProgress>,
    ) -> Result<TurnOutcome, TurnError> {
        let mut begun = Box::pin(self.begin_turn());
        let mut next = Instant::now();
        loop {
            tokio::select! {
                ending = &mut begun => return ending,
                Some(progress) = heard.recv() => match progress {
                    GitProgress::WaitingFor { remote } => {
                        self.send_notices(&[done::waiting_for_remote(&remote).for_chat()]).await?;
                    }
                    GitProgress::Step(step) if Instant::now() >= next => {
                        next = Instant::now() + PROGRESS_INTERVAL;
                        self.conversations.tell_watchers(ConversationEvent::Progress {
                            platform: self.conversation.platform.clone(),
                            conversation: self.conversation.name.clone(),
                            message: self.message.id,
                            text: done::progress_text(&step),
                        });
                    }
                    GitProgress::Step(_) => {}
                }
            }
        }
    }

    /// Begins the turn. If the message is about a repository that is not registered yet, registers it first.
    async fn begin_turn(&self) -> Result<TurnOutcome, TurnError> {
        let Some(repository) = self.wanted_repository() else { return self.dispatch_event().await };
        if let Some(ending) = self.register_repository(repository).await? {
            return Ok(ending);
        }
        let Some(conversation) = self.conversations.store.find_conversation(self.key.conversation).await? else {
            return Ok(TurnOutcome::without_answer());
        };
        TurnContext { conversation: &conversation, ..self.clone() }.dispatch_event().await
    }

    async fn dispatch_event(&self) -> Result<TurnOutcome, TurnError> {
        match &self.message.event {
            IncomingPayload::Closed { merged } => self.handle_closed(*merged).await,
            IncomingPayload::Pushed { head } => self.handle_pushed(head).await,
            IncomingPayload::Message { text, context, hints } => {
                let written = WrittenMessage { text, context: context.as_deref(), hints, seq: self.message.seq };
                self.perform_command(parse_message(text)?, written).await
            }
        }
    }

    /// Writes notices while the turn runs.
    pub(super) async fn send_notices(&self, notices: &[String]) -> Result<(), StoreError> {
        if notices.is_empty() {
            return Ok(());
        }
        let clean: Vec<String> = notices.iter().map(|text| self.conversations.redactor.redact_text(text)).collect();
        self.conversations.store.post_notices(self.key, self.message.id, &clean).await?;
        self.conversations.announce_reply(self.conversation, None);
        Ok(())
    }

    /// Returns environments that report slow remotes and progress in this conversation.
    pub fn environments_with_notices(&self) -> Environments {
        let environments = self.conversations.environments.clone().reporting_progress(self.on_progress.clone());
        environments.showing_script_output(self.script_output_sender())
    }

    /// Runs the init script of an environment, unless it succeeded before, and shows its output to watchers.
    pub async fn initialize_environment(
        &self,
        environments: &Environments,
        codebase: &Codebase,
        environment: &Environment,
        again: bool,
    ) -> Result<InitOutcome, EnvironmentError> {
        let show = self.script_output_sender();
        Box::pin(environments.initialize_environment(codebase, environment, again, &show)).await
    }

    /// Returns a function that shows the last line of a script's output to watchers, not too often.
    fn script_output_sender(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let (events, redactor) = (self.conversations.events.clone(), self.conversations.redactor.clone());
        let (platform, conversation) = (self.conversation.platform.clone(), self.conversation.name.clone());
        let (message, next) = (self.message.id, Mutex::new(Instant::now()));
        move |text| {
            let Some(line) = text.lines().rfind(|line| !line.trim().is_empty()) else { return };
            let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
            if Instant::now() < *next {
                return;
            }
            *next = Instant::now() + PROGRESS_INTERVAL;
            let (platform, conversation) = (platform.clone(), conversation.clone());
            let text = redactor.redact_text(line);
            // There may be no subscribers.
            let _ = events.send(ConversationEvent::Progress { platform, conversation, message, text });
        }
    }

    /// Returns codebases that report the progress of clones in this conversation.
    pub fn codebases_with_notices(&self) -> Codebases {
        self.conversations.codebases.clone().reporting_progress(self.on_progress.clone())
    }

    pub fn conversation_ref(&self) -> grove_store::ConversationRef {
        Conversation::conversation_ref(self.conversation)
    }
}
