//! The events that are kept in the store until they are handled.

use grove_environments::redact::Redactor;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::discord::api::{DiscordMessage, Snowflake};
use crate::discord::inbound::classify::MessagePlace;
use crate::discord::inbound::interaction::Interaction;

/// An event from the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredEvent {
    Message { message: Box<DiscordMessage>, place: MessagePlace },
    Interaction(Interaction),
    CatchUp(MissedMessages),
}

/// Messages of a channel that may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedMessages {
    pub channel: Snowflake,
    pub guild: Option<Snowflake>,
    /// The channel in which the bot made the thread, if it is one.
    pub own_thread_of: Option<Snowflake>,
    /// Only later messages may be missing.
    pub after: Snowflake,
}

impl MissedMessages {
    pub fn to_body(self) -> String {
        serde_json::to_string(&self).unwrap_or_default()
    }
}

pub const MESSAGE_KIND: &str = "MESSAGE_CREATE";
pub const INTERACTION_KIND: &str = "INTERACTION_CREATE";
pub const CATCH_UP_KIND: &str = "CATCH_UP";

/// The fields that people write.
const PROSE_FIELDS: [&str; 8] =
    ["content", "filename", "title", "description", "value", "username", "global_name", "name"];

/// Returns what is stored of a message, without secrets.
pub fn message_body(redactor: &Redactor, payload: &Value, own_thread_of: Option<Snowflake>) -> String {
    let mut payload = payload.clone();
    redactor.clean_json(&mut payload, |key| PROSE_FIELDS.contains(&key));
    json!({ "message": payload, "own_thread_of": own_thread_of }).to_string()
}

/// Returns what is stored of an interaction: its token stays in memory.
pub fn interaction_body(redactor: &Redactor, payload: &Value) -> String {
    let mut payload = payload.clone();
    if let Some(fields) = payload.as_object_mut() {
        fields.remove("token");
    }
    redactor.clean_json(&mut payload, |key| PROSE_FIELDS.contains(&key));
    payload.to_string()
}

/// Returns the place of a message.
pub fn place_of(guild: Option<Snowflake>, own_thread_of: Option<Snowflake>) -> MessagePlace {
    match (guild, own_thread_of) {
        (None, _) => MessagePlace::Direct,
        (Some(_), Some(parent)) => MessagePlace::OwnThread { parent },
        (Some(_), None) => MessagePlace::Elsewhere,
    }
}

impl StoredEvent {
    /// Parses a stored event; `None` if it makes no sense.
    pub fn parse(kind: &str, body: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(body).ok()?;
        let id = |name: &str| serde_json::from_value::<Snowflake>(value[name].clone()).ok();
        match kind {
            MESSAGE_KIND => {
                let message: Box<DiscordMessage> = serde_json::from_value(value["message"].clone()).ok()?;
                let place = place_of(message.guild_id, id("own_thread_of"));
                Some(Self::Message { message, place })
            }
            INTERACTION_KIND => Interaction::parse(&value).map(Self::Interaction),
            CATCH_UP_KIND => serde_json::from_value(value).ok().map(Self::CatchUp),
            _ => None,
        }
    }

    /// Returns the channel whose events are handled in order. A thread belongs to the channel in which it was
    /// made: the message that began it comes first.
    pub fn order_key(&self) -> Snowflake {
        match self {
            Self::Message { place: MessagePlace::OwnThread { parent }, .. } => *parent,
            Self::Message { message, .. } => message.channel_id,
            Self::Interaction(Interaction { channel, .. }) => {
                channel.parent_id.filter(|_| channel.is_thread()).unwrap_or(channel.id)
            }
            Self::CatchUp(missed) => missed.own_thread_of.unwrap_or(missed.channel),
        }
    }
}
