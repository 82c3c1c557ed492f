//! A run: the agent at work in its place, in the right session, and what is said of it.

use grove_agents::agent::{Agent, AgentError, Cancel, Ended, Outcome, Run, Usage};
use grove_environments::ready::WorkDir;
use grove_store::{End, Session, StoreError, TurnKey};
use tokio::sync::{mpsc, watch};

use crate::replies;
use crate::turn::agent::Said;
use crate::turn::session::Resumed;
use crate::turn::stream::Hearing;
use crate::turn::{Broken, Ending};
use crate::turn_context::Desk;

/// What an agent may have said that nobody has heard yet.
const UNHEARD: usize = 64;

impl Desk<'_> {
    /// Runs the agent. Where it does not know its session any more, it begins a new one that is told
    /// what was said lately.
    pub(super) async fn run(
        &self,
        key: &TurnKey,
        agent: &dyn Agent,
        place: &WorkDir,
        said: &Said<'_>,
        cancelled: &watch::Receiver<Option<Cancel>>,
    ) -> Result<Result<Outcome, AgentError>, Broken> {
        let mut resumed = self.session(agent, place.path()).await?;
        loop {
            if let (Some(command), Some(session)) = (said.command, &mut resumed.session) {
                session.facts.last_command = Some(command.to_owned());
                self.talks.store.keep_session(session).await?;
            }
            match self.run_in(&resumed, agent, place, said, cancelled).await? {
                Ok(Outcome { ended: Ended::NoSession, .. }) if !resumed.is_new() => {
                    self.say(key, &[replies::session_forgotten(agent.name())]).await?;
                    resumed = self.new_session(agent, place.path(), true).await?;
                }
                ran => return Ok(ran),
            }
        }
    }

    /// Runs the agent in a session that nobody comes back to.
    pub(super) async fn run_once(
        &self,
        agent: &dyn Agent,
        place: &WorkDir,
        said: &Said<'_>,
        cancelled: &watch::Receiver<Option<Cancel>>,
    ) -> Result<Result<Outcome, AgentError>, Broken> {
        self.run_in(&Resumed::once(), agent, place, said, cancelled).await
    }

    async fn run_in(
        &self,
        Resumed { session, wish, lately }: &Resumed,
        agent: &dyn Agent,
        place: &WorkDir,
        said: &Said<'_>,
        cancelled: &watch::Receiver<Option<Cancel>>,
    ) -> Result<Result<Outcome, AgentError>, Broken> {
        // What was said before first, then the context, the person's own words last.
        let parts = [lately.as_deref(), said.context, Some(said.text)];
        let parts: Vec<&str> = parts.into_iter().flatten().filter(|part| !part.trim().is_empty()).collect();
        let prompt = if parts.len() > 1 { parts.join("\n\n") } else { said.text.to_owned() };
        let (says, heard) = mpsc::channel(UNHEARD);
        let (wish, tools, cancel) = (wish.clone(), &said.tools, cancelled.clone());
        let before = session.as_ref().map(|session| session.facts.taken.into()).unwrap_or_default();
        let hearing = Hearing::new(self, session.clone());
        let run = agent.run(Run { place, prompt: &prompt, session: wish, before, tools, says, cancel });
        let (ran, session) = tokio::join!(run, hearing.listen(heard));
        if let Ok(outcome) = &ran {
            self.keep_usage(agent, session, outcome.usage).await?;
        }
        Ok(ran)
    }

    /// What a run took is the message's, and part of what its session has taken.
    async fn keep_usage(&self, agent: &dyn Agent, session: Option<Session>, usage: Usage) -> Result<(), StoreError> {
        if usage == Usage::default() {
            return Ok(());
        }
        let usage = grove_store::Usage::from(usage);
        self.talks.store.add_usage(self.message, agent.name(), &usage).await?;
        let Some(mut session) = session else { return Ok(()) };
        session.facts.taken = session.facts.taken.plus(usage);
        self.talks.store.keep_session(&session).await
    }

    pub(super) fn answer(&self, agent: &dyn Agent, said: &Said<'_>, outcome: Outcome) -> Result<Ending, Broken> {
        let Outcome { text, left_out, ended, .. } = outcome;
        // Cleaned before it is cut: half a secret is not known for one.
        let (text, dropped) = replies::last_part(&text);
        let text = replies::shortened(&self.talks.redactor.clean(text), left_out + dropped);
        let end = match ended {
            Ended::Well => End::Done,
            Ended::Badly { .. } | Ended::Failed(_) | Ended::NoSession => End::Failed,
            Ended::OverBudget | Ended::TimedOut | Ended::Cancelled(Cancel::Stopped) => End::Interrupted,
            Ended::Cancelled(Cancel::Draining) if self.talks.settings.retry_on_restart() => {
                return Err(Broken::PutBack);
            }
            Ended::Cancelled(Cancel::Draining) => End::Interrupted,
            Ended::Cancelled(Cancel::LostTurn) => return Err(Broken::Store(StoreError::LostTurn)),
        };
        let words = self.talks.redactor.clean(said.typed);
        Ok(Ending::new(Some(replies::ended(agent.name(), &ended, &text, &words)), end))
    }
}
