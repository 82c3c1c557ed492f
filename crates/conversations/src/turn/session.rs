//! Which session of the agent a message belongs to.

use std::path::Path;

use grove_agents::agent::{Agent, Memory, SessionWish};
use grove_store::{Exchange, Session};

use crate::replies;
use crate::turn::Broken;
use crate::turn_context::Desk;

/// How many messages a new session is told of.
const LATELY: i64 = 10;

/// A session, and how the agent gets into it.
pub(super) struct Resumed {
    /// `None`: nobody comes back to it.
    pub session: Option<Session>,
    pub wish: SessionWish,
    /// What was said before, for an agent that does not remember it.
    pub lately: Option<String>,
}

impl Resumed {
    /// A session for one run.
    pub fn once() -> Self {
        Self { session: None, wish: SessionWish::New, lately: None }
    }

    pub fn is_new(&self) -> bool {
        !matches!(self.wish, SessionWish::Resume(_))
    }
}

impl Desk<'_> {
    /// The session goes on where it was; in another place, or with another agent, a new one begins.
    pub(super) async fn session(&self, agent: &dyn Agent, cwd: &Path) -> Result<Resumed, Broken> {
        let Some(session) = self.talks.store.session(self.conversation.id).await? else {
            return self.new_session(agent, cwd, false).await;
        };
        let goes_on = session.agent == agent.name() && session.facts.cwd.as_deref() == cwd.to_str();
        if !goes_on {
            return self.new_session(agent, cwd, true).await;
        }
        let wish = match (agent.memory(), &session.assistant_id) {
            (Memory::None, _) | (_, None) => SessionWish::New,
            (_, Some(id)) if session.facts.begun => SessionWish::Resume(id.clone()),
            (_, Some(id)) => SessionWish::Named(id.clone()),
        };
        Ok(Resumed { session: Some(session), wish, lately: None })
    }

    /// Begins a session; `knowing` what was said lately, if the agent can remember at all.
    pub(super) async fn new_session(&self, agent: &dyn Agent, cwd: &Path, knowing: bool) -> Result<Resumed, Broken> {
        let store = &self.talks.store;
        let wish = agent.new_session();
        let id = match &wish {
            SessionWish::Named(id) => Some(id.clone()),
            SessionWish::New | SessionWish::Resume(_) => None,
        };
        let cwd = cwd.display().to_string();
        let session = store.start_session(self.conversation.id, agent.name(), &cwd, id).await?;
        let lately = if knowing && agent.memory() != Memory::None {
            let before: Vec<Exchange> = store.lately(self.message, LATELY).await?;
            replies::lately(&before).map(|text| self.talks.redactor.clean(&text))
        } else {
            None
        };
        Ok(Resumed { session: Some(session), wish, lately })
    }
}
