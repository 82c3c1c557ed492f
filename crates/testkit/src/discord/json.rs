//! The objects of a fake Discord, as it sends them.

use serde_json::{Value, json};

use super::state::{FakeChannel, FakeDiscordState, FakeUser};

impl FakeUser {
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id.to_string(), "username": self.name, "discriminator": "0", "global_name": self.name,
            "avatar": null, "bot": self.is_bot, "public_flags": 0,
        })
    }
}

impl FakeDiscordState {
    pub fn channel_json(&self, channel: &FakeChannel) -> Value {
        let last = self.messages.values().rfind(|message| message.channel == channel.id).map(|message| message.id);
        let mut json = json!({
            "id": channel.id.to_string(), "type": channel.kind, "name": channel.name,
            "last_message_id": last.map(|id| id.to_string()),
        });
        if !channel.is_direct() {
            json["guild_id"] = json!(self.guild.to_string());
        }
        if channel.is_thread() {
            json["parent_id"] = json!(channel.parent.map(|id| id.to_string()));
            json["owner_id"] = json!(channel.owner.map(|id| id.to_string()));
            json["thread_metadata"] = json!({ "archived": false, "locked": false, "auto_archive_duration": 4320, "archive_timestamp": "2024-01-01T00:00:00+00:00" });
        }
        json
    }

    pub fn message_json(&self, id: u64) -> Value {
        let message = &self.messages[&id];
        let mentioned = self.users.values().chain([&self.bot]);
        let mentions: Vec<Value> = mentioned
            .filter(|user| message.content.contains(&format!("<@{}>", user.id)))
            .map(FakeUser::to_json)
            .collect();
        let mut json = json!({
            "id": id.to_string(), "channel_id": message.channel.to_string(), "type": message.kind,
            "author": message.author.to_json(), "content": message.content, "timestamp": "2024-01-01T00:00:00+00:00",
            "edited_timestamp": null, "tts": false, "mention_everyone": false, "mentions": mentions,
            "mention_roles": [], "attachments": message.attachments, "embeds": [], "pinned": false,
            "flags": message.flags, "components": message.components,
        });
        if let Some(to) = message.reply_to {
            json["message_reference"] =
                json!({ "message_id": to.to_string(), "channel_id": message.channel.to_string() });
        }
        json
    }

    /// The server, as a new session is told of it.
    pub fn guild_json(&self) -> Value {
        let list = |threads: bool| -> Vec<Value> {
            let all = self.channels.values().filter(|channel| !channel.is_direct() && channel.is_thread() == threads);
            all.map(|channel| self.channel_json(channel)).collect()
        };
        json!({ "id": self.guild.to_string(), "name": "Test server", "channels": list(false), "threads": list(true), "members": [], "roles": [] })
    }
}
