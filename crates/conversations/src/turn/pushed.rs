//! New commits were pushed to the pull request that a conversation is about.

use grove_model::CommitSha;

use crate::replies;
use crate::turn::{Broken, Ending};
use crate::turn_context::Desk;

impl Desk<'_> {
    /// Whoever works on it is told if the environment does not have them.
    pub(super) async fn pushed(&self, head: &CommitSha) -> Result<Ending, Broken> {
        let talks = self.talks;
        let Some(id) = self.conversation.environment else { return Ok(Ending::silent()) };
        let Some(environment) = talks.store.environment(id).await? else { return Ok(Ending::silent()) };
        let Some(codebase) = talks.codebase_of(self.conversation).await? else { return Ok(Ending::silent()) };
        // Of several pushes, the last is worth a word.
        let is_last = environment.metadata.pr.as_ref().is_none_or(|pr| pr.head.as_ref() == Some(head));
        if !is_last || !talks.isolation.is_behind(&codebase, &environment, head).await? {
            return Ok(Ending::silent());
        }
        let number = environment.metadata.pr.as_ref().map(|pr| pr.number);
        Ok(Ending::done(replies::behind(environment.branch.as_str(), number, head)))
    }
}
