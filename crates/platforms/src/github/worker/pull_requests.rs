//! What is told of a pull request goes into the record.

use grove_environments::error::IsolationError;
use grove_environments::integrate::pull_request::PullRequestNews;
use grove_model::{Codebase, Event, Incoming};

use crate::github::adapter::Adapter;
use crate::github::inbound::classify::GITHUB;
use crate::github::inbound::event::{Happening, PullKnown, What};
use crate::github::worker::events::Stuck;

impl Adapter {
    /// Keeps what an event says of its pull request; of new commits, those are told who work on it.
    pub(crate) async fn told_of_pull(&self, happening: &Happening, codebase: &Codebase) -> Result<(), Stuck> {
        let PullKnown::Seen(pull) = &happening.thread.pull else { return Ok(()) };
        let Some(pull_request) = pull.info() else { return Ok(()) };
        let branch = pull.branch().filter(|_| !pull.is_from_fork());
        let head = pull_request.head.clone();
        let news = PullRequestNews { pull_request, branch };
        let environments = match self.talks.isolation.pull_request_changed(codebase, &news).await {
            Ok(environments) => environments,
            Err(IsolationError::Store(error)) => return Err(error.into()),
            Err(error) => {
                tracing::warn!("what was told of a pull request could not be kept: {error}");
                return Ok(());
            }
        };
        let (What::Pushed, Some(head)) = (&happening.what, head) else { return Ok(()) };
        for environment in environments {
            for conversation in self.talks.store.conversations_of(environment.id).await? {
                if conversation.platform != GITHUB {
                    continue;
                }
                self.talks
                    .accept(&Incoming {
                        via: GITHUB.to_owned(),
                        platform: GITHUB.to_owned(),
                        delivery: Some(format!("{GITHUB} {} head {head}", conversation.id.to_lowercase())),
                        conversation: conversation.id,
                        parent: None,
                        user: None,
                        event: Event::Pushed { head: head.clone() },
                    })
                    .await?;
            }
        }
        Ok(())
    }
}
