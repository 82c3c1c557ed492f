//! After the answer: what a run left is pushed, where that is wanted. The answer is kept before that, so
//! that no remote can keep it waiting or take it along.

use std::time::Duration;

use grove_environments::ready::WorkDir;
use grove_environments::settings::PushPolicy;
use grove_model::{Codebase, CommitSha, Environment};
use grove_store::TurnKey;

use crate::replies;
use crate::turn::Broken;
use crate::turn_context::Desk;

/// How long a remote may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// The same when the server ends, which waits for no more than half a minute.
const LAST: Duration = Duration::from_secs(20);

/// Where an agent worked, and where the branch was before.
#[derive(Debug)]
pub struct Left {
    codebase: Codebase,
    environment: Environment,
    before: Option<CommitSha>,
}

impl Desk<'_> {
    /// What a run may leave to be pushed, if that is wanted.
    pub(super) async fn to_be_left(&self, place: &WorkDir) -> Result<Option<Box<Left>>, Broken> {
        let WorkDir::Isolated(ready) = place else { return Ok(None) };
        if self.talks.settings.push() != PushPolicy::Auto {
            return Ok(None);
        }
        let (codebase, environment) = (ready.codebase.clone(), ready.environment.clone());
        let before = self.talks.isolation.tip(&codebase, &environment).await?;
        Ok(Some(Box::new(Left { codebase, environment, before })))
    }

    /// Pushes what a run left, and says so.
    pub(super) async fn push_left(&self, key: &TurnKey, left: &Left) {
        let Left { codebase, environment, before } = left;
        let (isolation, branch) = (&self.talks.isolation, environment.branch.as_str());
        match isolation.left_commits(codebase, environment, before.as_ref()).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return self.say_after(key, replies::pushed_after_run(branch, Err(error))).await,
        }
        let mut ending = self.talks.ending.subscribe();
        let at_the_end = async {
            drop(ending.wait_for(|ending| *ending).await);
            tokio::time::sleep(LAST).await;
        };
        let words = tokio::select! {
            pushed = isolation.push(codebase, environment, None) => replies::pushed_after_run(branch, pushed),
            () = tokio::time::sleep(PATIENCE) => replies::not_pushed_in_time(branch),
            () = at_the_end => replies::not_pushed_in_time(branch),
        };
        self.say_after(key, words).await;
    }

    async fn say_after(&self, key: &TurnKey, words: String) {
        if let Err(error) = self.say(key, &[words]).await {
            tracing::warn!("what became of a push could not be said: {error}");
        }
    }
}
