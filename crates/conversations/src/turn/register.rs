//! A repository is heard of for the first time: it is cloned and registered.

use grove_agents::agent::Cancel;
use grove_environments::codebases::CodebaseError;
use grove_environments::problem::Problem;
use grove_model::{Event, RepositoryHint};
use grove_store::TurnKey;
use tokio::sync::watch;

use crate::replies;
use crate::turn::{Broken, Ending};
use crate::turn_context::Desk;

impl Desk<'_> {
    /// The repository that the message is about, if the conversation has no codebase for it.
    pub(super) fn wanted_repository(&self) -> Option<&RepositoryHint> {
        match &self.message.event {
            Event::Message { hints, .. } if self.conversation.codebase.is_none() => hints.repository.as_deref(),
            _ => None,
        }
    }

    /// Makes it the conversation's codebase. `Some`: somebody does not want that any more.
    pub(super) async fn register(
        &self,
        key: &TurnKey,
        repository: &RepositoryHint,
        cancelled: &watch::Receiver<Option<Cancel>>,
    ) -> Result<Option<Ending>, Broken> {
        let codebases = &self.talks.codebases;
        let failed = |error: CodebaseError| match error {
            CodebaseError::Store(error) => Broken::Store(error),
            other => Broken::Problem(replies::blocked(Problem::from(other))),
        };
        let known = codebases.of_repository(repository).await.map_err(failed)?;
        let codebase = match known {
            Some(codebase) => codebase,
            None => {
                self.say(key, &[replies::cloning(&repository.name)]).await?;
                let (mut ending, mut cancelled) = (self.talks.ending.subscribe(), cancelled.clone());
                tokio::select! {
                    biased;
                    cloned = codebases.clone_workspace(repository) => cloned.map_err(failed)?,
                    () = async { drop(cancelled.wait_for(Option::is_some).await) } => {
                        return Ok(Some(Ending::stopped()));
                    }
                    () = async { drop(ending.wait_for(|ending| *ending).await) } => return Err(Broken::PutBack),
                }
            }
        };
        self.talks.store.choose_codebase(self.conversation.id, codebase.id).await?;
        Ok(None)
    }
}
