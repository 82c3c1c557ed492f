//! Pushes the commits of a run after its answer, if configured. The answer is stored first, so that no
//! remote can delay or lose it.

use std::time::Duration;

use grove_environments::ready::WorkDir;
use grove_environments::settings::PushPolicy;
use grove_model::{Codebase, CommitSha, Environment};

use crate::replies;
use crate::turn::TurnError;
use crate::turn_context::TurnContext;

/// The time that a push may take.
const PUSH_TIMEOUT: Duration = Duration::from_secs(120);
/// The time that a push may take when the server shuts down, which takes at most half a minute.
const SHUTDOWN_PUSH_TIMEOUT: Duration = Duration::from_secs(20);

/// The environment where an agent worked, and the commit of its branch before that.
#[derive(Debug)]
pub struct PushCandidate {
    codebase: Codebase,
    environment: Environment,
    before: Option<CommitSha>,
}

impl TurnContext<'_> {
    /// Returns what a run may leave to push, if pushing is configured.
    pub(super) async fn to_be_left(&self, place: &WorkDir) -> Result<Option<Box<PushCandidate>>, TurnError> {
        let WorkDir::Isolated(ready) = place else { return Ok(None) };
        if self.conversations.settings.current().push_policy() != PushPolicy::Auto {
            return Ok(None);
        }
        let (codebase, environment) = (ready.codebase.clone(), ready.environment.clone());
        let before = self.conversations.environments.head_commit(&codebase, &environment).await?;
        Ok(Some(Box::new(PushCandidate { codebase, environment, before })))
    }

    /// Pushes the commits that a run left, and reports it.
    pub(super) async fn push_left(&self, left: &PushCandidate) {
        let PushCandidate { codebase, environment, before } = left;
        let (environments, branch) = (&self.conversations.environments, environment.branch.as_str());
        match environments.left_commits(codebase, environment, before.as_ref()).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return self.say_after(replies::pushed_after_run(branch, Err(error))).await,
        }
        let at_the_end = async {
            self.wait_for_shutdown().await;
            tokio::time::sleep(SHUTDOWN_PUSH_TIMEOUT).await;
        };
        let words = tokio::select! {
            pushed = environments.push_branch(codebase, environment, None) => replies::pushed_after_run(branch, pushed),
            () = tokio::time::sleep(PUSH_TIMEOUT) => replies::not_pushed_in_time(branch),
            () = at_the_end => replies::not_pushed_in_time(branch),
        };
        self.say_after(words).await;
    }

    async fn say_after(&self, words: String) {
        if let Err(error) = self.send_notices(&[words]).await {
            tracing::warn!(%error, "notice about a push not sent");
        }
    }
}
