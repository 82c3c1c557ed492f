//! `/api/conversations/{id}/messages`

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use grove_environments::problem::Problem;
use grove_model::{IncomingEvent, IncomingPayload, MessageId};
use grove_store::{Conversation, InboxMessage, OutboxEntry};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::ServerState;
use super::super::body::JsonBody;
use super::super::fault::{HttpError, bad_query};
use super::check_incoming;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new()
        .route("/api/conversations", get(list_conversations))
        .route("/api/conversations/{id}/messages", get(list_messages).post(post_message))
}

/// Lists the conversations of this page.
async fn list_conversations(State(app): State<Arc<ServerState>>) -> Result<Json<Value>, HttpError> {
    let found = app.conversations.store.recent_conversations("web").await?;
    let one =
        |c: &Conversation| json!({ "id": c.name, "platform": c.platform, "last_activity_at": c.last_activity_at });
    Ok(Json(found.iter().map(one).collect()))
}

#[derive(Deserialize)]
struct MessagesQuery {
    message: Option<String>,
}

/// Lists the messages of people and agents, in order: all of them, or one message and its answers.
async fn list_messages(
    State(app): State<Arc<ServerState>>,
    Path(id): Path<String>,
    query: Result<Query<MessagesQuery>, QueryRejection>,
) -> Result<Json<Value>, HttpError> {
    let Query(part) = query.map_err(|rejection| bad_query(&rejection))?;
    let (idle, messages) = match part.message {
        Some(message) => load_exchange(&app, &id, &message).await?,
        None => load_history(&app, &id, None).await?,
    };
    let messages: Vec<Value> = messages.into_iter().map(|line| json!(line)).collect();
    Ok(Json(json!({ "conversationId": id, "idle": idle, "messages": messages })))
}

/// One line of a conversation.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationLine {
    pub role: &'static str,
    pub kind: &'static str,
    pub message: String,
    pub timestamp: grove_model::Moment,
    /// The id, for a message of a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The status, for a message of a person: waiting, running, done, refused, interrupted, failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The message that this line answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<MessageId>,
}

impl ConversationLine {
    /// Returns `None` for an event without a message, such as the closing of an issue.
    fn from_received(app: &ServerState, heard: InboxMessage) -> Option<Self> {
        let IncomingPayload::Message { text, .. } = &heard.event else { return None };
        Some(Self {
            role: "user",
            kind: "message",
            message: app.conversations.redactor.redact_text(text),
            timestamp: heard.received_at,
            message_id: Some(heard.id),
            status: Some(heard.status),
            answers: None,
        })
    }

    fn from_sent(said: OutboxEntry) -> Self {
        Self {
            role: "grove",
            kind: said.manner.as_str(),
            message: said.text,
            timestamp: said.at,
            message_id: None,
            status: None,
            answers: said.message,
        }
    }
}

/// Loads one message and its answers.
async fn load_exchange(app: &ServerState, id: &str, message: &str) -> Result<(bool, Vec<ConversationLine>), HttpError> {
    let store = &app.conversations.store;
    let heard = match message.parse() {
        Ok(message) => store.find_message(message).await?,
        Err(_) => None,
    };
    if let Some(heard) = heard
        && store.find_conversation(heard.conversation).await?.is_some_and(|conversation| conversation.name == id)
    {
        let idle = !store.is_busy(heard.conversation).await?;
        let said = store.said_to(&heard).await?;
        return Ok((
            idle,
            ConversationLine::from_received(app, heard)
                .into_iter()
                .chain(said.into_iter().map(ConversationLine::from_sent))
                .collect(),
        ));
    }
    Err(Problem::new("not_found", "This conversation has no such message.", "See /api/openapi.json.").into())
}

/// Returns whether the conversation is idle, and its lines so far; only on this platform, if one is named.
pub async fn load_history(
    app: &ServerState,
    id: &str,
    platform: Option<&str>,
) -> Result<(bool, Vec<ConversationLine>), HttpError> {
    let store = &app.conversations.store;
    let (mut idle, mut all) = (true, Vec::new());
    for conversation in store.conversations_called(id).await? {
        if platform.is_some_and(|platform| platform != conversation.platform) {
            continue;
        }
        idle &= !store.is_busy(conversation.id).await?;
        all.extend(
            store
                .conversation_messages(conversation.id)
                .await?
                .into_iter()
                .filter_map(|heard| ConversationLine::from_received(app, heard)),
        );
        all.extend(store.outbox_entries(conversation.id).await?.into_iter().map(ConversationLine::from_sent));
    }
    all.sort_by_key(|line| line.timestamp);
    Ok((idle, all))
}

#[derive(Deserialize)]
struct PostMessageBody {
    message: String,
    /// `web` unless the terminal sets another one.
    platform: Option<LocalPlatform>,
    /// The codebase of a conversation that begins with this message.
    codebase: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum LocalPlatform {
    Web,
    Cli,
}

async fn post_message(
    State(app): State<Arc<ServerState>>,
    Path(id): Path<String>,
    JsonBody(words): JsonBody<PostMessageBody>,
) -> Result<(StatusCode, Json<Value>), HttpError> {
    let platform = match words.platform {
        Some(LocalPlatform::Cli) => "cli",
        _ => "web",
    };
    let incoming = IncomingEvent {
        via: platform.to_owned(),
        platform: platform.to_owned(),
        conversation: id,
        parent: None,
        user: None,
        delivery: None,
        event: IncomingPayload::Message { text: words.message, context: None, hints: Default::default() },
    };
    check_incoming(&incoming)?;
    let codebase = match &words.codebase {
        Some(name) => Some(app.conversations.codebases.find_codebase(name).await?),
        None => None,
    };
    let accepted = app.conversations.accept_about(&incoming, codebase.as_ref()).await?;
    metrics::counter!("grove_messages_accepted_total", "adapter" => platform).increment(1);
    let (conversation, message) = (incoming.conversation, accepted.message);
    Ok((StatusCode::ACCEPTED, Json(json!({ "accepted": true, "conversationId": conversation, "messageId": message }))))
}
