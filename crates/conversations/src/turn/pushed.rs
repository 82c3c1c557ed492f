//! Handles the event that commits were pushed to the pull request of a conversation.

use grove_model::CommitSha;

use crate::replies;
use crate::turn::{TurnError, TurnOutcome};
use crate::turn_context::TurnContext;

impl TurnContext<'_> {
    /// Announces the commits in the conversation if the environment does not have them.
    pub(super) async fn handle_pushed(&self, head: &CommitSha) -> Result<TurnOutcome, TurnError> {
        let conversations = self.conversations;
        let Some(id) = self.conversation.environment else { return Ok(TurnOutcome::without_answer()) };
        let Some(environment) = conversations.store.find_environment(id).await? else {
            return Ok(TurnOutcome::without_answer());
        };
        let Some(codebase) = conversations.codebase_of(self.conversation).await? else {
            return Ok(TurnOutcome::without_answer());
        };
        // Of several pushes, only the last is announced.
        let is_last = environment.metadata.pr.as_ref().is_none_or(|pr| pr.head.as_ref() == Some(head));
        if !is_last || !conversations.environments.is_behind(&codebase, &environment, head).await? {
            return Ok(TurnOutcome::without_answer());
        }
        let number = environment.metadata.pr.as_ref().map(|pr| pr.number);
        Ok(TurnOutcome::from_answer(replies::behind_notice(environment.branch.as_str(), number, head)))
    }
}
