//! Handles stored events: looks up our own account first, and keeps the events of a thread in order.

use std::time::Instant;

use async_trait::async_trait;
use grove_store::{RawEvent, StoreError};
use jiff::SignedDuration;

use crate::adapter::AdapterState;
use crate::event_queue::{EventHandler, HandleError, LONGEST_RETRY_DELAY, retry_delay};
use crate::github::adapter::GithubAdapter;
use crate::github::api::{ApiError, GithubClient};
use crate::github::inbound::event::{ParsedDelivery, parse_delivery};

/// The time until an App that is not installed anywhere is looked up again.
const UNINSTALLED_APP_PAUSE: SignedDuration = SignedDuration::from_secs(30);

/// The reason why an event is not handled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Hopeless(String),
}

impl From<EventError> for HandleError {
    fn from(error: EventError) -> Self {
        match error {
            EventError::Api(error) => Self::Failed {
                advice: error.retry_advice(),
                concerns_all: error.concerns_all(),
                why: error.to_string(),
            },
            EventError::Store(error) => Self::Store(error),
            EventError::Hopeless(why) => Self::hopeless(why),
        }
    }
}

/// The handler of the events of GitHub.
pub(crate) struct GithubEventHandler<'a> {
    pub adapter: &'a GithubAdapter,
    pub github: &'a GithubClient,
}

#[async_trait]
impl EventHandler for GithubEventHandler<'_> {
    fn thread_of(&self, event: &RawEvent) -> String {
        match parse_delivery(&event.kind, event.body.as_bytes()) {
            Ok(ParsedDelivery::Happened(event)) => event.repo.name.conversation_id(event.thread.number).to_lowercase(),
            _ => event.delivery.clone(),
        }
    }

    async fn handle_event(&self, event: &RawEvent) -> Result<String, HandleError> {
        Ok(self.adapter.process_event(self.github, event).await?)
    }

    /// Looks up our own account. If it is unknown, all events wait.
    async fn prepare(&self, failures: i64) -> bool {
        self.adapter.bot_identity().account.is_some() || self.adapter.learn_who_we_are(self.github, failures).await
    }
}

impl GithubAdapter {
    /// Returns the end of the pause: no request is sent before it.
    pub(crate) fn backoff_until(&self) -> Instant {
        self.queue.paused_until()
    }

    pub(crate) fn rest_for(&self, pause: SignedDuration) {
        self.queue.pause_for(pause);
    }

    /// Looks up our own account. Returns whether events can be handled now.
    async fn learn_who_we_are(&self, github: &GithubClient, failures: i64) -> bool {
        match github.current_account().await {
            Ok(account) => {
                tracing::info!(account = account.name, "connected to GitHub");
                self.is_connected(&account.name).await;
                // An App that is not installed anywhere has no account yet, and no user who could mention
                // it.
                let is_known = account.user.is_some();
                self.us.send_modify(|us| us.account = account.user);
                if !is_known {
                    self.rest_for(UNINSTALLED_APP_PAUSE);
                }
                if let Err(error) = self.find_listed_accounts(github).await {
                    tracing::warn!(%error, "accounts of adapters.github.allowed_users not looked up");
                }
                is_known
            }
            Err(error) => {
                tracing::warn!(%error, "own GitHub account not looked up");
                self.record_state(AdapterState::Failing, &error.to_string()).await;
                self.rest_for(retry_delay(error.retry_advice(), failures).unwrap_or(LONGEST_RETRY_DELAY));
                false
            }
        }
    }
}
