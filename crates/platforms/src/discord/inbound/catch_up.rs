//! Looks for messages that the gateway did not bring: while no session could be resumed, people may have
//! written. Interactions are not looked for; Discord gives them up after three seconds.

use grove_store::StoreError;
use serde_json::Value;

use crate::discord::adapter::{DISCORD_PLATFORM, DiscordAdapter};
use crate::discord::api::{DiscordChannel, DiscordClient, MAX_PAGE_SIZE, MessagePage, Snowflake};
use crate::discord::inbound::classify::BotUser;
use crate::discord::inbound::stored::{CATCH_UP_KIND, MissedMessages, place_of};
use crate::event_queue::HandleError;

/// The number of pages of one channel that are looked through.
const MAX_CATCH_UP_PAGES: usize = 5;
/// The number of channels of a server that are looked through.
const MAX_CATCH_UP_CHANNELS: usize = 100;

/// Returns the channels and threads of a server with messages that may be missing.
pub fn channels_to_look_at(guild: &Value, after: Snowflake) -> Vec<DiscordChannel> {
    let lists = ["channels", "threads"].into_iter().filter_map(|name| guild[name].as_array());
    let all = lists.flatten().filter_map(|channel| serde_json::from_value::<DiscordChannel>(channel.clone()).ok());
    all.filter(|channel| channel.last_message_id.is_some_and(|last| last > after)).take(MAX_CATCH_UP_CHANNELS).collect()
}

impl DiscordAdapter {
    /// Plans to look for messages in a server.
    pub(super) async fn plan_guild_catch_up(
        &self,
        session: &str,
        guild: &Value,
        after: Snowflake,
    ) -> Result<(), StoreError> {
        let Ok(id) = serde_json::from_value::<Snowflake>(guild["id"].clone()) else { return Ok(()) };
        for channel in channels_to_look_at(guild, after) {
            self.plan_catch_up(session, channel.id, Some(id), after).await?;
        }
        Ok(())
    }

    /// Plans to look for direct messages: Discord does not list them, so the known conversations count.
    pub(super) async fn plan_direct_catch_up(&self, session: &str, after: Snowflake) -> Result<(), StoreError> {
        for conversation in self.conversations.store.recent_conversations(DISCORD_PLATFORM).await? {
            let Ok(channel) = conversation.name.parse::<Snowflake>() else { continue };
            if self.is_direct_channel(channel).await? {
                self.plan_catch_up(session, channel, None, after).await?;
            }
        }
        Ok(())
    }

    /// Plans to look through a channel, once for each session.
    async fn plan_catch_up(
        &self,
        session: &str,
        channel: Snowflake,
        guild: Option<Snowflake>,
        after: Snowflake,
    ) -> Result<(), StoreError> {
        let own_thread_of = self.own_thread_parent(channel).await?;
        let body = MissedMessages { channel, guild, own_thread_of, after }.to_body();
        self.queue.store_event(format!("catch-up:{session}:{channel}"), CATCH_UP_KIND.to_owned(), body).await?;
        Ok(())
    }

    /// Handles the messages of a channel after one of them, in order.
    pub(super) async fn catch_up(
        &self,
        discord: &DiscordClient,
        us: &BotUser,
        missed: MissedMessages,
        tries: i64,
    ) -> Result<String, HandleError> {
        let MissedMessages { channel, guild, own_thread_of, mut after } = missed;
        let (place, mut taken) = (place_of(guild, own_thread_of), 0);
        for _ in 0..MAX_CATCH_UP_PAGES {
            let page = match discord.list_messages(channel, MessagePage::After(after), MAX_PAGE_SIZE).await {
                Err(error) if error.is_refused() => return Ok(format!("not to be read: {error}")),
                page => page?,
            };
            let is_last = page.len() < MAX_PAGE_SIZE;
            for mut message in page {
                after = after.max(message.id);
                message.guild_id = guild;
                let outcome = self.handle_message(discord, us, &message, place, tries).await?;
                taken += usize::from(outcome == super::events::TAKEN);
                self.note_message(message.id);
            }
            if is_last {
                break;
            }
        }
        Ok(format!("found {taken} missed messages"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_channels_with_newer_messages_are_looked_at() {
        let guild = json!({
            "id": "1",
            "channels": [
                {"id": "10", "type": 0, "last_message_id": "500"},
                {"id": "11", "type": 0, "last_message_id": "400"},
                {"id": "12", "type": 2},
                {"type": 0, "last_message_id": "900"},
                "odd",
            ],
            "threads": [{"id": "20", "type": 11, "parent_id": "10", "last_message_id": "501"}],
        });
        let ids = |guild: &Value| -> Vec<u64> {
            channels_to_look_at(guild, Snowflake(450)).iter().map(|channel| channel.id.0).collect()
        };
        assert_eq!(ids(&guild), [10, 20]);
        assert_eq!(ids(&json!({"unavailable": true})), Vec::<u64>::new());
    }
}
