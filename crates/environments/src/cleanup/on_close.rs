//! A conversation was closed: its issue, its pull request, its thread.

use grove_model::{Codebase, Environment};
use grove_store::ConversationRef;

use crate::cleanup::reason_of;
use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::remove::{Asker, RemovalWish};

/// What became of the environment.
#[derive(Debug)]
pub enum Closed {
    /// The conversation had none.
    None,
    /// Others still work there.
    Shared {
        environment: Box<Environment>,
        with: Vec<String>,
    },
    /// Something speaks against removing it, to be said in the conversation.
    Kept {
        environment: Box<Environment>,
        reason: String,
    },
    Removed(Box<Environment>),
}

impl Isolation {
    /// Ends the conversation's session and its use of its environment, which goes if nobody else
    /// uses it and nothing would be lost. `merged`: whoever closed it says that the work was merged.
    pub async fn on_conversation_closed(
        &self,
        conversation: &ConversationRef,
        merged: bool,
    ) -> Result<Closed, IsolationError> {
        tracing::info!(platform = conversation.platform, conversation = conversation.id, merged, "closed");
        self.store.end_sessions(conversation).await?;
        let Some(id) = self.store.bound_environment(conversation).await? else { return Ok(Closed::None) };
        let Some(environment) = self.store.environment(id).await? else { return Ok(Closed::None) };
        let codebases = self.store.codebases().await?;
        let codebase = codebases.into_iter().find(|codebase| codebase.id == environment.codebase_id);
        let Some(codebase) = codebase else { return Ok(Closed::None) };
        let all = self.store.conversations_of(id).await?;
        let others: Vec<String> = all.into_iter().filter(|other| other != conversation).map(|other| other.id).collect();
        if !others.is_empty() {
            self.store.unbind_conversation(conversation).await?;
            return Ok(Closed::Shared { environment: Box::new(environment), with: others });
        }
        self.remove_closed(&codebase, environment, conversation).await
    }

    async fn remove_closed(
        &self,
        codebase: &Codebase,
        environment: Environment,
        conversation: &ConversationRef,
    ) -> Result<Closed, IsolationError> {
        let standings =
            self.standings(codebase, std::slice::from_ref(&environment), grove_model::Moment::now()).await?;
        let branch = super::branch_wish(standings.get(&environment.id));
        let wish = RemovalWish { branch, asker: Asker::Conversation(conversation.clone()), ..RemovalWish::default() };
        match self.remove(codebase, &environment, &wish).await {
            // Bound until here, so that whoever is cut short finds it again.
            Ok(_) => {
                self.store.unbind_conversation(conversation).await?;
                Ok(Closed::Removed(Box::new(environment)))
            }
            Err(error @ IsolationError::Refused(_)) => {
                self.store.unbind_conversation(conversation).await?;
                Ok(Closed::Kept { environment: Box::new(environment), reason: reason_of(error) })
            }
            Err(error) => Err(error),
        }
    }
}
