//! Conversations and their messages.

use grove_model::{Choice, ChoiceOption, MessageId, MessageStatus, Moment, OutboxKind};
use grove_store::{Conversation, OutboxEntry};
use serde::Serialize;
use utoipa::ToSchema;

use super::schema;

/// A conversation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Conversation)]
pub struct ConversationJson {
    /// The id on its platform.
    id: String,
    platform: String,
    /// The title of its issue or pull request, or the beginning of the first message.
    #[schema(required)]
    title: Option<String>,
    #[schema(required, value_type = Option<String>, format = DateTime)]
    last_activity_at: Option<Moment>,
}

impl From<Conversation> for ConversationJson {
    fn from(conversation: Conversation) -> Self {
        let Conversation { name, platform, title, last_activity_at, .. } = conversation;
        Self { id: name, platform, title, last_activity_at }
    }
}

/// The messages of a conversation, in order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Messages)]
#[serde(rename_all = "camelCase")]
pub struct MessagesJson {
    pub conversation_id: String,
    /// No message of the conversation waits or runs.
    pub idle: bool,
    /// Answers are Markdown; `false` where a shell answers, whose output is shown as it is.
    pub markdown: bool,
    pub messages: Vec<ConversationLineJson>,
}

/// One line of a conversation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConversationLine)]
#[serde(rename_all = "camelCase")]
pub struct ConversationLineJson {
    pub role: LineRole,
    pub kind: LineKind,
    pub message: String,
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Moment,
    /// The id, for a message of a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uuid", required = false)]
    pub message_id: Option<MessageId>,
    /// The status, for a message of a person. `waiting` and `running` messages have no answer yet; an `asked`
    /// one is answered with a question, and is kept until that is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::message_statuses, required = false)]
    pub status: Option<MessageStatus>,
    /// The message that this line answers, for a line of Grovekeeper.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uuid", required = false)]
    pub answers: Option<MessageId>,
    /// The question that the line asks, if it has a fixed set of answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub choice: Option<ChoiceJson>,
}

/// A question with a fixed set of answers: a message with the text of an option chooses it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Choice)]
pub struct ChoiceJson {
    pub question: String,
    pub options: Vec<ChoiceOptionJson>,
}

/// An answer to a question.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ChoiceOption)]
pub struct ChoiceOptionJson {
    /// The text of a button.
    pub label: String,
    /// The message that chooses it.
    pub text: String,
}

impl From<Choice> for ChoiceJson {
    fn from(Choice { question, options }: Choice) -> Self {
        let option = |ChoiceOption { label, text }| ChoiceOptionJson { label, text };
        Self { question, options: options.into_iter().map(option).collect() }
    }
}

/// The side that a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LineRole {
    User,
    Grove,
}

/// The kind of a line: every message gets any number of notices and one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LineKind {
    Message,
    Notice,
    Answer,
}

impl From<OutboxKind> for LineKind {
    fn from(kind: OutboxKind) -> Self {
        match kind {
            OutboxKind::Notice => Self::Notice,
            OutboxKind::Answer => Self::Answer,
        }
    }
}

impl From<OutboxEntry> for ConversationLineJson {
    fn from(said: OutboxEntry) -> Self {
        Self {
            role: LineRole::Grove,
            kind: said.manner.into(),
            message: said.text,
            timestamp: said.at,
            message_id: None,
            status: None,
            answers: said.message,
            choice: said.choice.map(ChoiceJson::from),
        }
    }
}

/// A message that was accepted: it is in the store and will be answered.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AcceptedMessage)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedMessageJson {
    pub accepted: bool,
    pub conversation_id: String,
    #[schema(value_type = String, format = "uuid")]
    pub message_id: MessageId,
}
