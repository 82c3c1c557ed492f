//! Handles a conversation that was closed: its issue, its pull request or its thread.

use grove_model::{Codebase, Environment};
use grove_store::ConversationRef;

use crate::cleanup::reason_of;
use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::remove::{RemovalRequester, RemoveOptions};

/// The outcome for the environment.
#[derive(Debug)]
pub enum CloseOutcome {
    /// The conversation had no environment.
    None,
    /// Other conversations still work there.
    Shared {
        environment: Box<Environment>,
        with: Vec<String>,
    },
    /// There are reasons against the removal, which the conversation is told.
    Kept {
        environment: Box<Environment>,
        reason: String,
    },
    Removed(Box<Environment>),
}

impl Environments {
    /// Ends the conversation's session and its use of its environment. The environment is removed if no other
    /// conversation uses it and nothing would be lost. `merged`: the event that closed the conversation says
    /// that the work was merged.
    pub async fn on_conversation_closed(
        &self,
        conversation: &ConversationRef,
        merged: bool,
    ) -> Result<CloseOutcome, EnvironmentError> {
        tracing::info!(platform = conversation.platform, conversation = conversation.id, merged, "closed");
        self.store.end_sessions(conversation).await?;
        let Some(id) = self.store.bound_environment(conversation).await? else { return Ok(CloseOutcome::None) };
        let Some(environment) = self.store.find_environment(id).await? else { return Ok(CloseOutcome::None) };
        let codebases = self.store.list_codebases().await?;
        let codebase = codebases.into_iter().find(|codebase| codebase.id == environment.codebase_id);
        let Some(codebase) = codebase else { return Ok(CloseOutcome::None) };
        let all = self.store.conversations_of(id).await?;
        let others: Vec<String> = all.into_iter().filter(|other| other != conversation).map(|other| other.id).collect();
        if !others.is_empty() {
            self.store.unbind_conversation(conversation).await?;
            return Ok(CloseOutcome::Shared { environment: Box::new(environment), with: others });
        }
        self.remove_closed(&codebase, environment, conversation).await
    }

    async fn remove_closed(
        &self,
        codebase: &Codebase,
        environment: Environment,
        conversation: &ConversationRef,
    ) -> Result<CloseOutcome, EnvironmentError> {
        let statuses =
            self.merge_statuses(codebase, std::slice::from_ref(&environment), grove_model::Moment::now()).await?;
        let branch = super::branch_policy(statuses.get(&environment.id));
        let options = RemoveOptions {
            branch,
            requester: RemovalRequester::Conversation(conversation.clone()),
            ..RemoveOptions::default()
        };
        match self.remove_environment(codebase, &environment, &options).await {
            // The conversation stays bound until here, so that a retry after an interruption finds the
            // environment.
            Ok(_) => {
                self.store.unbind_conversation(conversation).await?;
                Ok(CloseOutcome::Removed(Box::new(environment)))
            }
            Err(error @ EnvironmentError::Refused(_)) => {
                self.store.unbind_conversation(conversation).await?;
                Ok(CloseOutcome::Kept { environment: Box::new(environment), reason: reason_of(error) })
            }
            Err(error) => Err(error),
        }
    }
}
