//! Interactions: pressed buttons and slash commands.

use serde_json::Value;

use crate::discord::api::{DiscordChannel, DiscordUser, InteractionReceipt, Snowflake};
use crate::discord::outbound::slash_commands::command_text;

/// An interaction of a person with the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interaction {
    pub id: Snowflake,
    pub application: Snowflake,
    pub user: DiscordUser,
    pub channel: DiscordChannel,
    pub action: InteractionAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InteractionAction {
    /// A slash command, as the text that it stands for.
    Command { text: String },
    /// A button of a message.
    Button { data: String, message: Snowflake },
}

const COMMAND_INTERACTION: u64 = 2;
const COMPONENT_INTERACTION: u64 = 3;

impl Interaction {
    /// Parses an interaction; `None` if it is of another kind or makes no sense.
    pub fn parse(payload: &Value) -> Option<Self> {
        let id = |value: &Value| serde_json::from_value::<Snowflake>(value.clone()).ok();
        let in_guild = &payload["member"]["user"];
        let user = if in_guild.is_object() { in_guild } else { &payload["user"] };
        let user: DiscordUser = serde_json::from_value(user.clone()).ok()?;
        let channel_id = id(&payload["channel_id"])?;
        let told: Option<DiscordChannel> = serde_json::from_value(payload["channel"].clone()).ok();
        let unknown = DiscordChannel { id: channel_id, kind: 0, parent_id: None, last_message_id: None };
        let channel = told.filter(|told| told.id == channel_id).unwrap_or(unknown);
        let data = &payload["data"];
        let action = match payload["type"].as_u64()? {
            COMMAND_INTERACTION => InteractionAction::Command { text: command_text(data)? },
            COMPONENT_INTERACTION => InteractionAction::Button {
                data: data["custom_id"].as_str()?.to_owned(),
                message: id(&payload["message"]["id"])?,
            },
            _ => return None,
        };
        Some(Self { id: id(&payload["id"])?, application: id(&payload["application_id"])?, user, channel, action })
    }

    pub fn receipt(&self) -> InteractionReceipt {
        match self.action {
            InteractionAction::Command { .. } => InteractionReceipt::Thinking,
            InteractionAction::Button { .. } => InteractionReceipt::Silent,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_becomes_its_text_and_a_button_its_data() {
        let mut payload = json!({
            "id": "1", "application_id": "2", "type": 2, "token": "t", "channel_id": "3",
            "channel": {"id": "3", "type": 11, "parent_id": "9"},
            "member": {"user": {"id": "4", "username": "alice"}},
            "data": {"name": "worktree", "options": [{"name": "list", "type": 1, "options": []}]}
        });
        let command = Interaction::parse(&payload).unwrap();
        assert_eq!(command.action, InteractionAction::Command { text: "/worktree list".to_owned() });
        assert_eq!((command.user.username.as_str(), command.channel.parent_id), ("alice", Some(Snowflake(9))));
        payload["type"] = json!(3);
        payload["data"] = json!({"custom_id": "abc:1", "component_type": 2});
        payload["message"] = json!({"id": "8"});
        let button = Interaction::parse(&payload).unwrap();
        assert_eq!(button.action, InteractionAction::Button { data: "abc:1".to_owned(), message: Snowflake(8) });
        payload["type"] = json!(4);
        assert_eq!(Interaction::parse(&payload), None);
        payload["type"] = json!(3);
        payload["member"] = json!(null);
        assert_eq!(Interaction::parse(&payload), None);
        payload["user"] = json!({"id": "4"});
        assert!(Interaction::parse(&payload).is_some(), "in a direct message");
    }
}
