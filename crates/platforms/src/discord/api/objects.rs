//! The objects of Discord, as far as we need them. Fields that are new, missing or of another type do not
//! matter, unless nothing can be done without them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::snowflake::Snowflake;

/// A user or a bot.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct DiscordUser {
    pub id: Snowflake,
    /// The unique name that the person chose.
    #[serde(default, deserialize_with = "lenient")]
    pub username: String,
    #[serde(default, deserialize_with = "lenient")]
    pub bot: bool,
}

/// A message.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct DiscordMessage {
    pub id: Snowflake,
    pub channel_id: Snowflake,
    /// `None` for a direct message. Only the gateway says it.
    #[serde(default, deserialize_with = "lenient")]
    pub guild_id: Option<Snowflake>,
    pub author: DiscordUser,
    #[serde(default, deserialize_with = "lenient")]
    pub content: String,
    #[serde(rename = "type", default, deserialize_with = "lenient")]
    pub kind: u64,
    /// Set if a program wrote it through a webhook.
    #[serde(default, deserialize_with = "lenient")]
    pub webhook_id: Option<Snowflake>,
    #[serde(default, deserialize_with = "lenient_list")]
    pub attachments: Vec<DiscordAttachment>,
}

impl DiscordMessage {
    /// Tells whether it is a message or a reply, and not a remark of Discord about something that happened.
    pub fn is_text(&self) -> bool {
        [DEFAULT_MESSAGE, REPLY_MESSAGE].contains(&self.kind)
    }
}

const DEFAULT_MESSAGE: u64 = 0;
const REPLY_MESSAGE: u64 = 19;

/// A file of a message.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct DiscordAttachment {
    #[serde(default, deserialize_with = "lenient")]
    pub filename: String,
    pub url: String,
    pub size: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub content_type: Option<String>,
}

/// A channel or a thread.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct DiscordChannel {
    pub id: Snowflake,
    #[serde(rename = "type", default, deserialize_with = "lenient")]
    pub kind: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub parent_id: Option<Snowflake>,
    #[serde(default, deserialize_with = "lenient")]
    pub last_message_id: Option<Snowflake>,
}

impl DiscordChannel {
    pub fn is_thread(&self) -> bool {
        [ANNOUNCEMENT_THREAD, PUBLIC_THREAD, PRIVATE_THREAD].contains(&self.kind)
    }
}

const ANNOUNCEMENT_THREAD: u64 = 10;
const PUBLIC_THREAD: u64 = 11;
const PRIVATE_THREAD: u64 = 12;

/// The application that the bot belongs to.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct DiscordApplication {
    pub id: Snowflake,
    #[serde(default, deserialize_with = "lenient")]
    pub flags: u64,
}

/// Reads a field; one that makes no sense counts as missing.
pub fn lenient<'de, T: DeserializeOwned + Default, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Reads a list; items that make no sense are skipped.
pub fn lenient_list<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let items: Vec<Value> = lenient(deserializer)?;
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_and_odd_fields_do_not_matter() {
        let message: DiscordMessage = serde_json::from_value(json!({
            "id": "5", "channel_id": 6, "guild_id": null, "content": null, "type": "new", "webhook_id": {},
            "author": {"id": "7", "username": 8, "bot": "yes", "clan": {"tag": "new"}},
            "attachments": [{"size": "?"}, {"url": "https://x/y", "size": 3}],
            "poll": {"future": true}
        }))
        .unwrap();
        assert_eq!((message.id, message.author.id, message.kind), (Snowflake(5), Snowflake(7), 0));
        assert_eq!((message.content.as_str(), message.attachments.len()), ("", 1));
        let lists_are_odd = json!({"id": "5", "channel_id": "6", "author": {"id": "7"}, "attachments": "none"});
        assert!(serde_json::from_value::<DiscordMessage>(lists_are_odd).unwrap().attachments.is_empty());
        assert!(serde_json::from_value::<DiscordMessage>(json!({"id": "5", "channel_id": "6"})).is_err());
    }
}
