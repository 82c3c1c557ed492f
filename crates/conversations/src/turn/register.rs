//! Clones and registers a repository that is used for the first time.

use grove_agents::agent::CancelReason;
use grove_environments::codebases::CodebaseError;
use grove_environments::problem::Problem;
use grove_model::{IncomingPayload, RepositoryHint};
use grove_store::TurnKey;
use tokio::sync::watch;

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
        key: &TurnKey,
        repository: &RepositoryHint,
        cancelled: &watch::Receiver<Option<CancelReason>>,
    ) -> Result<Option<TurnOutcome>, TurnError> {
        let codebases = &self.conversations.codebases;
        let failed = |error: CodebaseError| match error {
            CodebaseError::Store(error) => TurnError::Store(error),
            other => TurnError::Problem(replies::blocked_problem(Problem::from(other))),
        };
        let known = codebases.of_repository(repository).await.map_err(failed)?;
        let codebase = match known {
            Some(codebase) => codebase,
            None => {
                self.send_notices(key, &[replies::cloning_notice(&repository.name)]).await?;
                let (mut ending, mut cancelled) = (self.conversations.ending.subscribe(), cancelled.clone());
                tokio::select! {
                    biased;
                    cloned = codebases.clone_workspace(repository) => cloned.map_err(failed)?,
                    () = async { drop(cancelled.wait_for(Option::is_some).await) } => {
                        return Ok(Some(TurnOutcome::stopped_early()));
                    }
                    () = async { drop(ending.wait_for(|ending| *ending).await) } => return Err(TurnError::PutBack),
                }
            }
        };
        self.conversations.store.choose_codebase(self.conversation.id, codebase.id).await?;
        Ok(None)
    }
}
