//! `/api/conversations/{id}/messages`

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use grove_model::{IncomingEvent, IncomingPayload};
use grove_store::{Conversation, InboxMessage};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::super::ServerState;
use super::super::body::JsonBody;
use super::super::fault::HttpError;
use super::super::openapi::{AccessErrors, BodyErrors};
use super::super::query::QueryParams;
use super::super::trace::record_conversation;
use super::check_incoming;
use crate::api_json::{
    AcceptedMessageJson, ConversationJson, ConversationLineJson, ErrorJson, LineKind, LineRole, MessagesJson,
};
use crate::words;

pub fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::default().routes(routes!(list_conversations)).routes(routes!(list_messages, post_message))
}

/// Lists the latest conversations of the page.
#[utoipa::path(
    get,
    path = "/api/conversations",
    tag = "conversations",
    responses((status = 200, description = "The conversations.", body = Vec<ConversationJson>), AccessErrors),
)]
async fn list_conversations(State(app): State<Arc<ServerState>>) -> Result<Json<Vec<ConversationJson>>, HttpError> {
    let found = app.conversations.store.recent_conversations("web").await?;
    Ok(Json(found.into_iter().map(ConversationJson::from).collect()))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct MessagesQuery {
    /// Only the message with this `messageId`, and what was said to it.
    message: Option<String>,
}

/// Lists the messages of people and agents, in order: all of them, or one message and its answers.
#[utoipa::path(
    get,
    path = "/api/conversations/{id}/messages",
    tag = "conversations",
    params(("id" = String, Path, description = "The conversation's id on its platform."), MessagesQuery),
    responses(
        (status = 200, description = "The messages; none for a conversation that is not known.", body = MessagesJson),
        (status = 400, description = "The query cannot be read.", body = ErrorJson),
        (status = 404, description = "The conversation has no such message.", body = ErrorJson),
        AccessErrors,
    ),
)]
async fn list_messages(
    State(app): State<Arc<ServerState>>,
    Path(id): Path<String>,
    QueryParams(part): QueryParams<MessagesQuery>,
) -> Result<Json<MessagesJson>, HttpError> {
    record_conversation(&id);
    let ConversationHistory { idle, lines, conversation } = match part.message {
        Some(message) => load_exchange(&app, &id, &message).await?,
        None => load_history(&app, &id, None).await?,
    };
    let markdown = !is_shell(&app, conversation.as_ref()).await?;
    Ok(Json(MessagesJson { conversation_id: id, idle, markdown, messages: lines }))
}

/// A conversation, or a part of it.
pub struct ConversationHistory {
    /// No message waits or runs.
    pub idle: bool,
    pub lines: Vec<ConversationLineJson>,
    /// `None` before the first message.
    pub conversation: Option<Conversation>,
}

/// Tells whether messages go to the shell, whose output is no Markdown and needs a fixed-width font.
pub async fn is_shell(app: &ServerState, conversation: Option<&Conversation>) -> Result<bool, HttpError> {
    let (mut wanted, mut platform) = (None, "web");
    if let Some(conversation) = conversation {
        let codebase = app.conversations.codebase_of(conversation).await?;
        wanted = conversation.agent.clone().or_else(|| codebase.and_then(|codebase| codebase.ai_assistant_type));
        platform = &conversation.platform;
    }
    Ok(app.conversations.agents.choose_agent(wanted.as_deref(), platform).is_ok_and(|agent| agent.name() == "sh"))
}

/// Returns `None` for an event without a message, such as the closing of an issue.
fn line_of_received(app: &ServerState, heard: &InboxMessage) -> Option<ConversationLineJson> {
    let IncomingPayload::Message { text, .. } = &heard.event else { return None };
    Some(ConversationLineJson {
        role: LineRole::User,
        kind: LineKind::Message,
        message: app.conversations.redactor.redact_text(text),
        timestamp: heard.received_at,
        message_id: Some(heard.id),
        status: Some(heard.status),
        answers: None,
        choice: None,
    })
}

/// Loads one message and its answers.
async fn load_exchange(app: &ServerState, id: &str, message: &str) -> Result<ConversationHistory, HttpError> {
    let store = &app.conversations.store;
    let heard = match message.parse() {
        Ok(message) => store.find_message(message).await?,
        Err(_) => None,
    };
    if let Some(heard) = heard
        && let Some(conversation) = store.find_conversation(heard.conversation).await?
        && conversation.name == id
    {
        let idle = !store.is_busy(heard.conversation).await?;
        let said = store.said_to(&heard).await?;
        let said = said.into_iter().map(ConversationLineJson::from);
        let lines = line_of_received(app, &heard).into_iter().chain(said).collect();
        return Ok(ConversationHistory { idle, lines, conversation: Some(conversation) });
    }
    Err(words::unknown_message().into())
}

/// Loads a conversation; only on this platform, if one is named.
pub async fn load_history(
    app: &ServerState,
    id: &str,
    platform: Option<&str>,
) -> Result<ConversationHistory, HttpError> {
    let store = &app.conversations.store;
    let (mut idle, mut lines, mut found) = (true, Vec::new(), None);
    for conversation in store.conversations_called(id).await? {
        if platform.is_some_and(|platform| platform != conversation.platform) {
            continue;
        }
        idle &= !store.is_busy(conversation.id).await?;
        let heard = store.conversation_messages(conversation.id).await?;
        lines.extend(heard.iter().filter_map(|heard| line_of_received(app, heard)));
        lines.extend(store.outbox_entries(conversation.id).await?.into_iter().map(ConversationLineJson::from));
        found.get_or_insert(conversation);
    }
    lines.sort_by_key(|line| line.timestamp);
    Ok(ConversationHistory { idle, lines, conversation: found })
}

/// A message to send.
#[derive(Deserialize, ToSchema)]
struct PostMessageBody {
    message: String,
    /// `web` unless the terminal sets another one.
    platform: Option<LocalPlatform>,
    /// The codebase of a conversation that begins with this message.
    codebase: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum LocalPlatform {
    Web,
    Cli,
}

/// Sends a message.
#[utoipa::path(
    post,
    path = "/api/conversations/{id}/messages",
    tag = "conversations",
    params(("id" = String, Path, description = "The conversation's id; a new one begins a conversation.")),
    request_body = PostMessageBody,
    responses(
        (status = 202, description = "The message is stored and will be answered.", body = AcceptedMessageJson),
        (status = 404, description = "No codebase has this name.", body = ErrorJson),
        BodyErrors,
        AccessErrors,
    ),
)]
async fn post_message(
    State(app): State<Arc<ServerState>>,
    Path(id): Path<String>,
    JsonBody(words): JsonBody<PostMessageBody>,
) -> Result<(StatusCode, Json<AcceptedMessageJson>), HttpError> {
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
    record_conversation(&incoming.conversation);
    let codebase = match &words.codebase {
        Some(name) => Some(app.conversations.codebases.find_codebase(name).await?),
        None => None,
    };
    let accepted = app.conversations.accept_about(&incoming, codebase.as_ref()).await?;
    metrics::counter!("grove_messages_accepted_total", "adapter" => platform).increment(1);
    let (conversation_id, message_id) = (incoming.conversation, accepted.message);
    Ok((StatusCode::ACCEPTED, Json(AcceptedMessageJson { accepted: true, conversation_id, message_id })))
}
