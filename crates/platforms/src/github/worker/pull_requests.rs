//! Records the data of pull requests from events.

use grove_environments::error::EnvironmentError;
use grove_environments::integrate::pull_request::PullRequestUpdate;
use grove_model::{Codebase, IncomingEvent, IncomingPayload};

use crate::github::adapter::GithubAdapter;
use crate::github::inbound::classify::GITHUB_PLATFORM;
use crate::github::inbound::event::{EventAction, GithubEvent, PullKnowledge};
use crate::github::worker::events::EventError;

impl GithubAdapter {
    /// Records the data of an event about its pull request; new commits are announced in the conversations
    /// that work on it.
    pub(crate) async fn told_of_pull(&self, event: &GithubEvent, codebase: &Codebase) -> Result<(), EventError> {
        let PullKnowledge::Seen(pull) = &event.thread.pull else { return Ok(()) };
        let Some(pull_request) = pull.pull_request_info() else { return Ok(()) };
        let branch = pull.head_branch().filter(|_| !pull.is_from_fork());
        let head = pull_request.head.clone();
        let news = PullRequestUpdate { pull_request, branch };
        let environments = match self.conversations.environments.pull_request_changed(codebase, &news).await {
            Ok(environments) => environments,
            Err(EnvironmentError::Store(error)) => return Err(error.into()),
            Err(error) => {
                tracing::warn!(%error, "pull request not recorded");
                return Ok(());
            }
        };
        let (EventAction::Pushed, Some(head)) = (&event.what, head) else { return Ok(()) };
        for environment in environments {
            for conversation in self.conversations.store.conversations_of(environment.id).await? {
                if conversation.platform != GITHUB_PLATFORM {
                    continue;
                }
                self.conversations
                    .accept_incoming(&IncomingEvent {
                        via: GITHUB_PLATFORM.to_owned(),
                        platform: GITHUB_PLATFORM.to_owned(),
                        delivery: Some(format!("{GITHUB_PLATFORM} {} head {head}", conversation.id.to_lowercase())),
                        conversation: conversation.id,
                        parent: None,
                        user: None,
                        event: IncomingPayload::Pushed { head: head.clone() },
                    })
                    .await?;
            }
        }
        Ok(())
    }
}
