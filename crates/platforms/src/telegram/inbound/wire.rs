//! Updates as Telegram sends them: only the fields that are needed. Unknown fields and new words are fine.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// An update.
#[derive(Clone, Debug, Deserialize)]
pub struct Update {
    pub update_id: i64,
    pub message: Option<Message>,
    pub edited_message: Option<IgnoredAny>,
    pub callback_query: Option<CallbackQuery>,
    pub my_chat_member: Option<MembershipChange>,
}

impl Update {
    /// Parses an update.
    pub fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct User {
    pub id: i64,
    #[serde(default)]
    pub is_bot: bool,
    pub username: Option<String>,
    pub first_name: Option<String>,
}

impl User {
    /// Returns the name that people know the user by.
    pub fn display_name(&self) -> String {
        match (&self.username, &self.first_name) {
            (Some(username), _) => format!("@{username}"),
            (None, Some(name)) => name.clone(),
            (None, None) => self.id.to_string(),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Chat {
    pub id: i64,
    /// `private`, `group`, `supergroup` or `channel`.
    #[serde(rename = "type", default)]
    pub kind: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Message {
    pub message_id: i32,
    pub message_thread_id: Option<i32>,
    #[serde(default)]
    pub is_topic_message: bool,
    pub from: Option<User>,
    /// The message is in the name of a chat, not of a person.
    pub sender_chat: Option<IgnoredAny>,
    pub chat: Chat,
    pub text: Option<String>,
    #[serde(default)]
    pub entities: Vec<MessageEntity>,
    pub caption: Option<String>,
    #[serde(default)]
    pub caption_entities: Vec<MessageEntity>,
    pub reply_to_message: Option<Box<Message>>,
    pub forward_origin: Option<ForwardOrigin>,
    pub via_bot: Option<IgnoredAny>,
    pub document: Option<FileAttachment>,
    pub audio: Option<FileAttachment>,
    pub video: Option<FileAttachment>,
    pub photo: Option<IgnoredAny>,
    pub voice: Option<IgnoredAny>,
    pub media_group_id: Option<String>,
    pub migrate_to_chat_id: Option<i64>,
    pub forum_topic_created: Option<IgnoredAny>,
}

impl Message {
    /// Returns the text or the caption, with the parts of it that are marked.
    pub fn written_text(&self) -> (&str, &[MessageEntity]) {
        match (&self.text, &self.caption) {
            (Some(text), _) => (text, &self.entities),
            (None, Some(caption)) => (caption, &self.caption_entities),
            (None, None) => ("", &[]),
        }
    }

    /// Tells whether the author wrote the text: it is neither forwarded nor made by a bot.
    pub fn is_own_text(&self) -> bool {
        let from = self.from.as_ref().map(|from| from.id);
        let forwarded =
            self.forward_origin.as_ref().is_some_and(|origin| origin.sender_user.as_ref().map(|user| user.id) != from);
        !forwarded && self.via_bot.is_none() && self.sender_chat.is_none()
    }
}

/// A part of a text with a meaning. Offsets count UTF-16 units.
#[derive(Clone, Debug, Deserialize)]
pub struct MessageEntity {
    #[serde(rename = "type")]
    pub kind: String,
    pub offset: usize,
    pub length: usize,
    pub url: Option<String>,
    pub user: Option<User>,
    pub language: Option<String>,
}

/// The origin of a forwarded message.
#[derive(Clone, Debug, Deserialize)]
pub struct ForwardOrigin {
    pub sender_user: Option<User>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct FileAttachment {
    pub file_id: String,
    pub file_name: Option<String>,
    pub mime_type: Option<String>,
    pub file_size: Option<u64>,
}

/// A button that was pressed.
#[derive(Clone, Debug, Deserialize)]
pub struct CallbackQuery {
    pub id: String,
    pub from: User,
    /// The message with the button.
    pub message: Option<Message>,
    pub data: Option<String>,
}

/// A change of the bot's own membership in a chat.
#[derive(Clone, Debug, Deserialize)]
pub struct MembershipChange {
    pub chat: Chat,
    pub new_chat_member: Option<ChatMember>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ChatMember {
    #[serde(default)]
    pub status: String,
}
