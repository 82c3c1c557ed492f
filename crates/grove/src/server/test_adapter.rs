//! The test adapter: a script can do all that an adapter can. For this machine only, and off unless
//! somebody asks for it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use grove_model::{Event, Hints, Incoming};
use serde::Deserialize;
use serde_json::{Value, json};

use super::App;
use super::body::Body;
use super::fault::Fault;

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/test/message", post(message))
        .route("/test/close", post(close))
        .route("/test/messages/{*id}", get(messages).delete(forget))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    conversation_id: String,
    message: String,
    context: Option<String>,
    hints: Option<Hints>,
    platform: Option<String>,
    /// The channel that a thread is in.
    parent: Option<String>,
    user: Option<String>,
    /// The same one is taken once.
    delivery: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Closed {
    conversation_id: String,
    platform: Option<String>,
    #[serde(default)]
    merged: bool,
}

async fn message(State(app): State<Arc<App>>, Body(said): Body<Said>) -> Result<(StatusCode, Json<Value>), Fault> {
    let event = Event::Message { text: said.message, context: said.context, hints: said.hints.unwrap_or_default() };
    let incoming = Incoming {
        via: "test".to_owned(),
        platform: said.platform.unwrap_or_else(|| "test".to_owned()),
        conversation: said.conversation_id,
        parent: said.parent,
        user: said.user,
        delivery: said.delivery.map(|delivery| format!("test {delivery}")),
        event,
    };
    take(&app, &incoming).await
}

async fn close(State(app): State<Arc<App>>, Body(closed): Body<Closed>) -> Result<(StatusCode, Json<Value>), Fault> {
    let incoming = Incoming {
        via: "test".to_owned(),
        platform: closed.platform.unwrap_or_else(|| "test".to_owned()),
        conversation: closed.conversation_id,
        parent: None,
        user: None,
        delivery: None,
        event: Event::Closed { merged: closed.merged },
    };
    take(&app, &incoming).await
}

async fn take(app: &App, incoming: &Incoming) -> Result<(StatusCode, Json<Value>), Fault> {
    super::api::check(incoming)?;
    app.talks.accept(incoming).await?;
    metrics::counter!("grove_messages_accepted_total", "adapter" => "test").increment(1);
    Ok((StatusCode::ACCEPTED, Json(json!({ "accepted": true, "conversationId": incoming.conversation }))))
}

/// What was said there, and whether anything is still to come.
async fn messages(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>, Fault> {
    let store = &app.talks.store;
    let (mut idle, mut messages) = (true, Vec::new());
    for conversation in store.conversations_called(&id).await? {
        // Busy first: what is said after that look is not missed by an idle answer.
        idle &= !store.is_busy(conversation.id).await?;
        for said in store.said(conversation.id).await? {
            messages.push(json!({ "message": said.text, "timestamp": said.at, "kind": said.manner.as_str() }));
        }
    }
    Ok(Json(json!({ "conversationId": id, "idle": idle, "messages": messages })))
}

async fn forget(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>, Fault> {
    for conversation in app.talks.store.conversations_called(&id).await? {
        app.talks.store.forget_said(conversation.id).await?;
    }
    Ok(Json(json!({ "conversationId": id, "cleared": true })))
}
