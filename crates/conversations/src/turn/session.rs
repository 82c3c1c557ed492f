//! Chooses the agent's session for a message.

use std::path::Path;

use grove_agents::agent::{Agent, SessionMemory, SessionRequest};
use grove_store::{AgentSession, MessageExchange};

use crate::replies;
use crate::turn::TurnError;
use crate::turn_context::TurnContext;

/// The number of earlier messages that a new session gets.
const MAX_RECENT_MESSAGES: i64 = 10;

/// A session, and how the agent opens it.
pub(super) struct ResumedSession {
    /// `None` if the session is never resumed.
    pub session: Option<AgentSession>,
    pub wish: SessionRequest,
    /// The earlier messages, for an agent that does not remember them.
    pub lately: Option<String>,
}

impl ResumedSession {
    /// Returns a session for a single run.
    pub fn one_off_session() -> Self {
        Self { session: None, wish: SessionRequest::New, lately: None }
    }

    pub fn is_new(&self) -> bool {
        !matches!(self.wish, SessionRequest::Resume(_))
    }
}

impl TurnContext<'_> {
    /// Resumes the session; with another directory or another agent, a new one starts.
    pub(super) async fn resume_session(&self, agent: &dyn Agent, cwd: &Path) -> Result<ResumedSession, TurnError> {
        let Some(session) = self.conversations.store.active_session(self.conversation.id).await? else {
            return self.new_session(agent, cwd, false).await;
        };
        let goes_on = session.agent == agent.name() && session.facts.cwd.as_deref() == cwd.to_str();
        if !goes_on {
            return self.new_session(agent, cwd, true).await;
        }
        let wish = match (agent.session_memory(), &session.assistant_id) {
            (SessionMemory::None, _) | (_, None) => SessionRequest::New,
            (_, Some(id)) if session.facts.begun => SessionRequest::Resume(id.clone()),
            (_, Some(id)) => SessionRequest::Named(id.clone()),
        };
        Ok(ResumedSession { session: Some(session), wish, lately: None })
    }

    /// Starts a session; with `knowing`, it gets the recent messages, if the agent has a memory at all.
    pub(super) async fn new_session(
        &self,
        agent: &dyn Agent,
        cwd: &Path,
        knowing: bool,
    ) -> Result<ResumedSession, TurnError> {
        let store = &self.conversations.store;
        let wish = agent.new_session();
        let id = match &wish {
            SessionRequest::Named(id) => Some(id.clone()),
            SessionRequest::New | SessionRequest::Resume(_) => None,
        };
        let cwd = cwd.display().to_string();
        let session = store.start_session(self.conversation.id, agent.name(), &cwd, id).await?;
        let lately = if knowing && agent.session_memory() != SessionMemory::None {
            let before: Vec<MessageExchange> = store.recent_exchanges(self.message, MAX_RECENT_MESSAGES).await?;
            replies::recent_exchanges(&before).map(|text| self.conversations.redactor.redact_text(&text))
        } else {
            None
        };
        Ok(ResumedSession { session: Some(session), wish, lately })
    }
}
