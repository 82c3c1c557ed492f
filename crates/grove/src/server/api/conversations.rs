//! `/api/conversations/{id}/messages`

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use grove_model::{Event, Incoming};
use grove_store::Conversation;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::App;
use super::super::body::Body;
use super::super::fault::Fault;
use super::check;

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/conversations", get(list))
        .route("/api/conversations/{id}/messages", get(messages).post(say))
}

/// The conversations of this page.
async fn list(State(app): State<Arc<App>>) -> Result<Json<Value>, Fault> {
    let found = app.talks.store.recent_conversations("web").await?;
    let one =
        |c: &Conversation| json!({ "id": c.name, "platform": c.platform, "last_activity_at": c.last_activity_at });
    Ok(Json(found.iter().map(one).collect()))
}

/// What was said by people and by agents, in order.
async fn messages(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>, Fault> {
    let (idle, messages) = history(&app, &id).await?;
    let messages: Vec<Value> = messages.into_iter().map(|line| json!(line)).collect();
    Ok(Json(json!({ "conversationId": id, "idle": idle, "messages": messages })))
}

/// One line of a conversation.
#[derive(serde::Serialize)]
pub struct Spoken {
    pub role: &'static str,
    pub kind: String,
    pub message: String,
    pub timestamp: grove_model::Moment,
}

pub async fn history(app: &App, id: &str) -> Result<(bool, Vec<Spoken>), Fault> {
    let store = &app.talks.store;
    let (mut idle, mut all) = (true, Vec::new());
    for conversation in store.conversations_called(id).await? {
        idle &= !store.is_busy(conversation.id).await?;
        for heard in store.heard(conversation.id).await? {
            if let Event::Message { text, .. } = heard.event {
                let message = app.talks.redactor.clean(&text);
                all.push(Spoken { role: "user", kind: "message".to_owned(), message, timestamp: heard.received_at });
            }
        }
        for said in store.said(conversation.id, 0).await? {
            all.push(Spoken { role: "grove", kind: said.kind, message: said.text, timestamp: said.at });
        }
    }
    all.sort_by_key(|line| line.timestamp);
    Ok((idle, all))
}

#[derive(Deserialize)]
struct Said {
    message: String,
    /// `web` unless the terminal says otherwise.
    platform: Option<Local>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Local {
    Web,
    Cli,
}

async fn say(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(said): Body<Said>,
) -> Result<(StatusCode, Json<Value>), Fault> {
    let platform = match said.platform {
        Some(Local::Cli) => "cli",
        _ => "web",
    };
    let incoming = Incoming {
        via: platform.to_owned(),
        platform: platform.to_owned(),
        conversation: id,
        parent: None,
        user: None,
        delivery: None,
        event: Event::Message { text: said.message, context: None, hints: Default::default() },
    };
    check(&incoming)?;
    app.talks.accept(&incoming).await?;
    metrics::counter!("grove_messages_accepted_total", "adapter" => platform).increment(1);
    Ok((StatusCode::ACCEPTED, Json(json!({ "accepted": true, "conversationId": incoming.conversation }))))
}
