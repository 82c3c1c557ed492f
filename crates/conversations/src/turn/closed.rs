//! Handles the event that a conversation was closed.

use grove_environments::cleanup::on_close::CloseOutcome;

use crate::replies;
use crate::turn::{TurnError, TurnOutcome};
use crate::turn_context::TurnContext;

impl TurnContext<'_> {
    pub(super) async fn handle_closed(&self, merged: bool) -> Result<TurnOutcome, TurnError> {
        Ok(match self.conversations.environments.on_conversation_closed(&self.conversation_ref(), merged).await? {
            // The person who closed it does not expect a reply.
            CloseOutcome::None | CloseOutcome::Shared { .. } | CloseOutcome::Removed(_) => {
                TurnOutcome::without_answer()
            }
            CloseOutcome::Kept { environment, reason } => {
                TurnOutcome::from_answer(replies::kept_worktree_notice(environment.branch.as_str(), &reason))
            }
        })
    }
}
