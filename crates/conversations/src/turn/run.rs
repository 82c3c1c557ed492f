//! A run: the agent works in its environment and session, and its events are reported.

use grove_agents::agent::{Agent, AgentError, AgentRun, CancelReason, RunEnd, RunOutcome, RunUsage};
use grove_environments::ready::WorkDir;
use grove_store::{AgentSession, InboxOutcome, StoreError};
use tokio::sync::mpsc;

use crate::replies;
use crate::turn::agent::AgentRequest;
use crate::turn::session::ResumedSession;
use crate::turn::stream::AgentEventForwarder;
use crate::turn::{TurnError, TurnOutcome};
use crate::turn_context::TurnContext;

/// The number of events of an agent that can wait to be handled.
const EVENT_CHANNEL_CAPACITY: usize = 64;

impl TurnContext<'_> {
    /// Runs the agent. If it does not know its session any more, starts a new one, which gets the recent
    /// messages.
    pub(super) async fn run_agent(
        &self,
        agent: &dyn Agent,
        place: &WorkDir,
        said: &AgentRequest<'_>,
    ) -> Result<Result<RunOutcome, AgentError>, TurnError> {
        let mut resumed = self.resume_session(agent, place.path()).await?;
        loop {
            if let (Some(command), Some(session)) = (said.command, &mut resumed.session) {
                session.facts.last_command = Some(command.to_owned());
                self.conversations.store.keep_session(session).await?;
            }
            match self.run_in(&resumed, agent, place, said).await? {
                Ok(RunOutcome { ended: RunEnd::NoSession, .. }) if !resumed.is_new() => {
                    self.send_notices(&[replies::session_forgotten(agent.name())]).await?;
                    resumed = self.new_session(agent, place.path(), true).await?;
                }
                ran => return Ok(ran),
            }
        }
    }

    /// Runs the agent in a session that is never resumed.
    pub(super) async fn run_once(
        &self,
        agent: &dyn Agent,
        place: &WorkDir,
        said: &AgentRequest<'_>,
    ) -> Result<Result<RunOutcome, AgentError>, TurnError> {
        self.run_in(&ResumedSession::one_off_session(), agent, place, said).await
    }

    async fn run_in(
        &self,
        ResumedSession { session, wish, lately }: &ResumedSession,
        agent: &dyn Agent,
        place: &WorkDir,
        said: &AgentRequest<'_>,
    ) -> Result<Result<RunOutcome, AgentError>, TurnError> {
        // First the earlier messages, then the context, and last the person's own message.
        let parts = [lately.as_deref(), said.context, Some(said.text)];
        let parts: Vec<&str> = parts.into_iter().flatten().filter(|part| !part.trim().is_empty()).collect();
        let prompt = if parts.len() > 1 { parts.join("\n\n") } else { said.text.to_owned() };
        let (says, heard) = mpsc::channel(EVENT_CHANNEL_CAPACITY);
        let (wish, tools, cancel) = (wish.clone(), &said.tools, self.cancelled.clone());
        let before = session.as_ref().map(|session| session.facts.taken.into()).unwrap_or_default();
        let hearing = AgentEventForwarder::new(self, session.clone());
        let run = agent.run_turn(AgentRun { place, prompt: &prompt, session: wish, before, tools, says, cancel });
        let (ran, session) = tokio::join!(run, hearing.forward_events(heard));
        if let Ok(outcome) = &ran {
            self.keep_usage(agent, session, outcome.usage).await?;
        }
        Ok(ran)
    }

    /// Records the usage of a run for the message, and adds it to that of the session.
    async fn keep_usage(
        &self,
        agent: &dyn Agent,
        session: Option<AgentSession>,
        usage: RunUsage,
    ) -> Result<(), StoreError> {
        if usage == RunUsage::default() {
            return Ok(());
        }
        let usage = grove_store::AgentUsage::from(usage);
        self.conversations.store.add_usage(self.message, agent.name(), &usage).await?;
        let Some(mut session) = session else { return Ok(()) };
        session.facts.taken = session.facts.taken.combine_with(usage);
        self.conversations.store.keep_session(&session).await
    }

    pub(super) fn to_turn_outcome(
        &self,
        agent: &dyn Agent,
        said: &AgentRequest<'_>,
        outcome: RunOutcome,
    ) -> Result<TurnOutcome, TurnError> {
        let RunOutcome { text, left_out, ended, .. } = outcome;
        // Redacted before it is cut: half of a secret would not be recognized.
        let (text, dropped) = replies::last_part(&text);
        let text = replies::shorten_answer(&self.conversations.redactor.redact_text(text), left_out + dropped);
        let end = match ended {
            RunEnd::Well => InboxOutcome::Done,
            RunEnd::Badly { .. } | RunEnd::Failed(_) | RunEnd::NoSession => InboxOutcome::Failed,
            RunEnd::OverBudget | RunEnd::TimedOut | RunEnd::Cancelled(CancelReason::Stopped) => {
                InboxOutcome::Interrupted
            }
            RunEnd::Cancelled(CancelReason::Draining) if self.conversations.settings.current().retry_on_restart() => {
                return Err(TurnError::PutBack);
            }
            RunEnd::Cancelled(CancelReason::Draining) => InboxOutcome::Interrupted,
            RunEnd::Cancelled(CancelReason::LostTurn) => return Err(TurnError::Store(StoreError::LostTurn)),
        };
        let words = self.conversations.redactor.redact_text(said.typed);
        Ok(TurnOutcome::new(Some(replies::run_end_reply(agent.name(), &ended, &text, &words)), end))
    }
}
