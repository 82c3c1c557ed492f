//! The session of the gateway, kept in the store: after a restart the gateway replays the events that were
//! missed. A session is saved only after its events are stored, so that a crash loses none of them.

use std::sync::PoisonError;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use grove_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::discord::adapter::{DISCORD_PLATFORM, DiscordAdapter};
use crate::discord::api::Snowflake;
use crate::discord::inbound::classify::BotUser;

const SESSION_MARK: &str = "session";
const LATEST_MESSAGE_MARK: &str = "latest message";

/// Messages are looked for that are this much older than the newest known one: those of different channels do
/// not arrive in exact order.
const CATCH_UP_OVERLAP: Duration = Duration::from_secs(60);
/// Older messages are not looked for.
const MAX_CATCH_UP_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// A session that can be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSession {
    pub id: String,
    pub resume_url: String,
    pub sequence: u64,
    pub user_id: Snowflake,
    pub user_name: String,
}

impl SavedSession {
    pub fn bot_user(&self) -> BotUser {
        BotUser { id: self.user_id, name: self.user_name.clone() }
    }
}

/// Returns the id after which messages are looked for, given the newest message that is known.
pub fn catch_up_start(latest_known: Snowflake, now: Snowflake) -> Snowflake {
    latest_known.minus(CATCH_UP_OVERLAP).max(now.minus(MAX_CATCH_UP_AGE))
}

pub fn current_snowflake() -> Snowflake {
    Snowflake::at_time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

impl DiscordAdapter {
    /// Returns the session of the last run; `None` if there is none or it cannot be read.
    pub(super) async fn load_session(&self) -> Option<SavedSession> {
        let saved = self.conversations.store.find_mark(DISCORD_PLATFORM, SESSION_MARK).await;
        let saved = saved.inspect_err(|error| tracing::warn!(%error, "Discord session not loaded")).ok()??;
        serde_json::from_str(&saved).ok()
    }

    pub(super) async fn save_session(&self, session: &SavedSession) -> Result<(), StoreError> {
        let text = serde_json::to_string(session).unwrap_or_default();
        self.conversations.store.set_mark(DISCORD_PLATFORM, SESSION_MARK, &text).await?;
        let latest = *self.latest_message.lock().unwrap_or_else(PoisonError::into_inner);
        match latest {
            Some(latest) => {
                self.conversations.store.set_mark(DISCORD_PLATFORM, LATEST_MESSAGE_MARK, &latest.to_string()).await
            }
            None => Ok(()),
        }
    }

    pub(super) async fn forget_session(&self) {
        if let Err(error) = self.conversations.store.set_mark(DISCORD_PLATFORM, SESSION_MARK, "").await {
            tracing::warn!(%error, "Discord session not forgotten");
        }
    }

    /// Returns the newest message that was seen, in this run or the one before.
    pub(super) async fn latest_message(&self) -> Result<Option<Snowflake>, StoreError> {
        if let Some(latest) = *self.latest_message.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Some(latest));
        }
        let mark = self.conversations.store.find_mark(DISCORD_PLATFORM, LATEST_MESSAGE_MARK).await?;
        let latest = mark.and_then(|latest| latest.parse().ok());
        if let Some(latest) = latest {
            self.note_message(latest);
        }
        Ok(latest)
    }

    pub(super) fn note_message(&self, message: Snowflake) {
        let mut latest = self.latest_message.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = (*latest).max(Some(message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_looked_for_since_the_newest_known_one_but_not_forever() {
        let now = Snowflake::at_time(Duration::from_secs(1_800_000_000));
        let minute_ago = now.minus(Duration::from_secs(60));
        assert_eq!(catch_up_start(minute_ago, now), now.minus(Duration::from_secs(120)));
        assert_eq!(catch_up_start(Snowflake(0), now), now.minus(MAX_CATCH_UP_AGE));
    }
}
