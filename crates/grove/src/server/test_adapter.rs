//! The test adapter: a script can do everything that an adapter can. It serves only this machine, and is off
//! unless the user turns it on.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use grove_model::{IncomingEvent, IncomingPayload, WorkHints};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ServerState;
use super::body::JsonBody;
use super::fault::HttpError;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new()
        .route("/test/message", post(post_message))
        .route("/test/close", post(close_conversation))
        .route("/test/messages/{*id}", get(list_messages).delete(clear_messages))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TestMessageBody {
    conversation_id: String,
    message: String,
    context: Option<String>,
    hints: Option<WorkHints>,
    platform: Option<String>,
    /// The channel that contains the thread.
    parent: Option<String>,
    user: Option<String>,
    /// The id of the delivery; a delivery is accepted only once.
    delivery: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TestCloseBody {
    conversation_id: String,
    platform: Option<String>,
    #[serde(default)]
    merged: bool,
}

async fn post_message(
    State(app): State<Arc<ServerState>>,
    JsonBody(said): JsonBody<TestMessageBody>,
) -> Result<(StatusCode, Json<Value>), HttpError> {
    let event =
        IncomingPayload::Message { text: said.message, context: said.context, hints: said.hints.unwrap_or_default() };
    let incoming = IncomingEvent {
        via: "test".to_owned(),
        platform: said.platform.unwrap_or_else(|| "test".to_owned()),
        conversation: said.conversation_id,
        parent: said.parent,
        user: said.user,
        delivery: said.delivery.map(|delivery| format!("test {delivery}")),
        event,
    };
    accept_incoming(&app, &incoming).await
}

async fn close_conversation(
    State(app): State<Arc<ServerState>>,
    JsonBody(closed): JsonBody<TestCloseBody>,
) -> Result<(StatusCode, Json<Value>), HttpError> {
    let incoming = IncomingEvent {
        via: "test".to_owned(),
        platform: closed.platform.unwrap_or_else(|| "test".to_owned()),
        conversation: closed.conversation_id,
        parent: None,
        user: None,
        delivery: None,
        event: IncomingPayload::Closed { merged: closed.merged },
    };
    accept_incoming(&app, &incoming).await
}

async fn accept_incoming(app: &ServerState, incoming: &IncomingEvent) -> Result<(StatusCode, Json<Value>), HttpError> {
    super::api::check_incoming(incoming)?;
    app.conversations.accept_incoming(incoming).await?;
    metrics::counter!("grove_messages_accepted_total", "adapter" => "test").increment(1);
    Ok((StatusCode::ACCEPTED, Json(json!({ "accepted": true, "conversationId": incoming.conversation }))))
}

/// Lists the messages of a conversation, and tells whether more are to come.
async fn list_messages(State(app): State<Arc<ServerState>>, Path(id): Path<String>) -> Result<Json<Value>, HttpError> {
    let store = &app.conversations.store;
    let (mut idle, mut messages) = (true, Vec::new());
    for conversation in store.conversations_called(&id).await? {
        // The busy check comes first, so that an idle answer does not miss a message that was sent after the
        // check.
        idle &= !store.is_busy(conversation.id).await?;
        for said in store.outbox_entries(conversation.id).await? {
            messages.push(json!({ "message": said.text, "timestamp": said.at, "kind": said.manner.as_str() }));
        }
    }
    Ok(Json(json!({ "conversationId": id, "idle": idle, "messages": messages })))
}

async fn clear_messages(State(app): State<Arc<ServerState>>, Path(id): Path<String>) -> Result<Json<Value>, HttpError> {
    for conversation in app.conversations.store.conversations_called(&id).await? {
        app.conversations.store.forget_said(conversation.id).await?;
    }
    Ok(Json(json!({ "conversationId": id, "cleared": true })))
}
