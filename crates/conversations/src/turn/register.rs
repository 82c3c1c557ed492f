//! Clones and registers a repository that is used for the first time.

use grove_environments::codebases::CodebaseError;
use grove_environments::problem::Problem;
use grove_model::{IncomingPayload, RepositoryHint};

use crate::replies;
use crate::turn::{TurnError, TurnOutcome};
use crate::turn_context::TurnContext;

impl TurnContext<'_> {
    /// Returns the repository of the message, if the conversation has no codebase for it.
    pub(super) fn wanted_repository(&self) -> Option<&RepositoryHint> {
        match &self.message.event {
            IncomingPayload::Message { hints, .. } if self.conversation.codebase.is_none() => {
                hints.repository.as_deref()
            }
            _ => None,
        }
    }

    /// Makes the repository the conversation's codebase. `Some` if the user stopped the turn meanwhile.
    pub(super) async fn register_repository(
        &self,
        repository: &RepositoryHint,
    ) -> Result<Option<TurnOutcome>, TurnError> {
        let codebases = self.codebases_with_notices();
        let failed = |error: CodebaseError| match error {
            CodebaseError::Store(error) => TurnError::Store(error),
            other => TurnError::Problem(replies::blocked_problem(Problem::from(other))),
        };
        let known = codebases.of_repository(repository).await.map_err(failed)?;
        let codebase = match known {
            Some(codebase) => codebase,
            None => {
                self.send_notices(&[replies::cloning_notice(&repository.name)]).await?;
                tokio::select! {
                    biased;
                    cloned = codebases.clone_workspace(repository) => cloned.map_err(failed)?,
                    () = self.wait_for_cancellation() => return Ok(Some(TurnOutcome::stopped_early())),
                    () = self.wait_for_shutdown() => return Err(TurnError::PutBack),
                }
            }
        };
        self.conversations.store.choose_codebase(self.conversation.id, codebase.id).await?;
        Ok(None)
    }
}
