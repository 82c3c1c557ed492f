//! The test adapter: a script can do everything that an adapter can. It serves only this machine, and is off
//! unless the user turns it on.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use grove_model::{IncomingEvent, IncomingPayload, Moment, WorkHints};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ServerState;
use super::body::JsonBody;
use super::fault::HttpError;
use super::openapi::{BodyErrors, TestAdapterErrors};
use super::trace::record_conversation;
use crate::api_json::{LineKind, work_hints};

pub fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::default()
        .routes(routes!(post_test_message))
        .routes(routes!(close_test_conversation))
        .routes(routes!(list_test_messages, clear_test_messages))
}

/// A message, as an adapter reports it.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TestMessageBody {
    conversation_id: String,
    message: String,
    /// Earlier or surrounding messages; the agent gets them first.
    context: Option<String>,
    #[schema(schema_with = work_hints, required = false)]
    hints: Option<WorkHints>,
    /// The platform; `test` if it is missing.
    platform: Option<String>,
    /// The channel that contains the thread.
    parent: Option<String>,
    user: Option<String>,
    /// The id of the delivery; a delivery is accepted only once.
    delivery: Option<String>,
}

/// The end of a conversation, as an adapter reports it.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TestCloseBody {
    conversation_id: String,
    /// The platform; `test` if it is missing.
    platform: Option<String>,
    /// Its pull request was merged.
    #[serde(default)]
    merged: bool,
}

/// An event that was accepted.
#[derive(Serialize, ToSchema)]
#[schema(as = AcceptedTestEvent)]
#[serde(rename_all = "camelCase")]
struct AcceptedEventJson {
    accepted: bool,
    conversation_id: String,
}

/// The messages to a conversation, in order.
#[derive(Serialize, ToSchema)]
#[schema(as = TestMessages)]
#[serde(rename_all = "camelCase")]
struct TestMessagesJson {
    conversation_id: String,
    /// No message of the conversation waits or runs.
    idle: bool,
    messages: Vec<TestMessageJson>,
}

/// One message to a conversation.
#[derive(Serialize, ToSchema)]
#[schema(as = TestMessage)]
struct TestMessageJson {
    message: String,
    #[schema(value_type = String, format = DateTime)]
    timestamp: Moment,
    kind: LineKind,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ClearedMessages)]
#[serde(rename_all = "camelCase")]
struct ClearedMessagesJson {
    conversation_id: String,
    cleared: bool,
}

/// Sends a message, as a person on a platform would.
#[utoipa::path(
    post,
    path = "/test/message",
    tag = "test adapter",
    security(()),
    request_body = TestMessageBody,
    responses(
        (status = 202, description = "The message is stored and will be answered.", body = AcceptedEventJson),
        BodyErrors,
        TestAdapterErrors,
    ),
)]
async fn post_test_message(
    State(app): State<Arc<ServerState>>,
    JsonBody(said): JsonBody<TestMessageBody>,
) -> Result<(StatusCode, Json<AcceptedEventJson>), HttpError> {
    let event = IncomingPayload::Message {
        text: said.message,
        context: said.context,
        hints: Box::new(said.hints.unwrap_or_default()),
    };
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

/// Closes the issue, pull request or thread of a conversation.
#[utoipa::path(
    post,
    path = "/test/close",
    tag = "test adapter",
    security(()),
    request_body = TestCloseBody,
    responses(
        (status = 202, description = "The event is stored and will be handled.", body = AcceptedEventJson),
        BodyErrors,
        TestAdapterErrors,
    ),
)]
async fn close_test_conversation(
    State(app): State<Arc<ServerState>>,
    JsonBody(closed): JsonBody<TestCloseBody>,
) -> Result<(StatusCode, Json<AcceptedEventJson>), HttpError> {
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

async fn accept_incoming(
    app: &ServerState,
    incoming: &IncomingEvent,
) -> Result<(StatusCode, Json<AcceptedEventJson>), HttpError> {
    super::api::check_incoming(incoming)?;
    record_conversation(&incoming.conversation);
    app.conversations.accept_incoming(incoming).await?;
    metrics::counter!("grove_messages_accepted_total", "adapter" => "test").increment(1);
    let conversation_id = incoming.conversation.clone();
    Ok((StatusCode::ACCEPTED, Json(AcceptedEventJson { accepted: true, conversation_id })))
}

/// Lists the messages to a conversation, and tells whether more are to come.
#[utoipa::path(
    get,
    path = "/test/messages/{*id}",
    tag = "test adapter",
    security(()),
    params(("id" = String, Path, description = "The conversation's id on its platform.")),
    responses((status = 200, description = "The messages.", body = TestMessagesJson), TestAdapterErrors),
)]
async fn list_test_messages(
    State(app): State<Arc<ServerState>>,
    Path(id): Path<String>,
) -> Result<Json<TestMessagesJson>, HttpError> {
    record_conversation(&id);
    let store = &app.conversations.store;
    let (mut idle, mut messages) = (true, Vec::new());
    for conversation in store.conversations_called(&id).await? {
        // The busy check comes first, so that an idle answer does not miss a message that was sent after the
        // check.
        idle &= !store.is_busy(conversation.id).await?;
        for said in store.outbox_entries(conversation.id).await? {
            messages.push(TestMessageJson { message: said.text, timestamp: said.at, kind: said.manner.into() });
        }
    }
    Ok(Json(TestMessagesJson { conversation_id: id, idle, messages }))
}

/// Forgets the messages to a conversation.
#[utoipa::path(
    delete,
    path = "/test/messages/{*id}",
    tag = "test adapter",
    security(()),
    params(("id" = String, Path, description = "The conversation's id on its platform.")),
    responses((status = 200, description = "They are forgotten.", body = ClearedMessagesJson), TestAdapterErrors),
)]
async fn clear_test_messages(
    State(app): State<Arc<ServerState>>,
    Path(id): Path<String>,
) -> Result<Json<ClearedMessagesJson>, HttpError> {
    record_conversation(&id);
    for conversation in app.conversations.store.conversations_called(&id).await? {
        app.conversations.store.forget_said(conversation.id).await?;
    }
    Ok(Json(ClearedMessagesJson { conversation_id: id, cleared: true }))
}
