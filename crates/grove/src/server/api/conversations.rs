//! `/api/conversations/{id}/messages`

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use grove_environments::problem::Problem;
use grove_model::{Event, Incoming, MessageId};
use grove_store::{Conversation, Message, Said};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::App;
use super::super::body::Body;
use super::super::fault::{Fault, bad_query};
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

#[derive(Deserialize)]
struct Part {
    message: Option<String>,
}

/// What was said by people and by agents, in order: all of it, or one message and what was said to it.
async fn messages(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    query: Result<Query<Part>, QueryRejection>,
) -> Result<Json<Value>, Fault> {
    let Query(part) = query.map_err(|rejection| bad_query(&rejection))?;
    let (idle, messages) = match part.message {
        Some(message) => exchange(&app, &id, &message).await?,
        None => history(&app, &id, None).await?,
    };
    let messages: Vec<Value> = messages.into_iter().map(|line| json!(line)).collect();
    Ok(Json(json!({ "conversationId": id, "idle": idle, "messages": messages })))
}

/// One line of a conversation.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spoken {
    pub role: &'static str,
    pub kind: &'static str,
    pub message: String,
    pub timestamp: grove_model::Moment,
    /// What somebody said has an id…
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// …and a fate: waiting, running, done, refused, interrupted, failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What was said back says to which message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<MessageId>,
}

impl Spoken {
    /// `None` for what nobody said, such as that an issue was closed.
    fn heard(app: &App, heard: Message) -> Option<Self> {
        let Event::Message { text, .. } = &heard.event else { return None };
        Some(Self {
            role: "user",
            kind: "message",
            message: app.talks.redactor.clean(text),
            timestamp: heard.received_at,
            message_id: Some(heard.id),
            status: Some(heard.status),
            answers: None,
        })
    }

    fn said(said: Said) -> Self {
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

/// One message and what was said to it.
async fn exchange(app: &App, id: &str, message: &str) -> Result<(bool, Vec<Spoken>), Fault> {
    let store = &app.talks.store;
    let heard = match message.parse() {
        Ok(message) => store.message(message).await?,
        Err(_) => None,
    };
    if let Some(heard) = heard
        && store.conversation(heard.conversation).await?.is_some_and(|conversation| conversation.name == id)
    {
        let idle = !store.is_busy(heard.conversation).await?;
        let said = store.said_to(&heard).await?;
        return Ok((idle, Spoken::heard(app, heard).into_iter().chain(said.into_iter().map(Spoken::said)).collect()));
    }
    Err(Problem::new("not_found", "This conversation has no such message.", "See /api/openapi.json.").into())
}

/// Whether nothing is to come, and what was said so far; only on this platform, if one is named.
pub async fn history(app: &App, id: &str, platform: Option<&str>) -> Result<(bool, Vec<Spoken>), Fault> {
    let store = &app.talks.store;
    let (mut idle, mut all) = (true, Vec::new());
    for conversation in store.conversations_called(id).await? {
        if platform.is_some_and(|platform| platform != conversation.platform) {
            continue;
        }
        idle &= !store.is_busy(conversation.id).await?;
        all.extend(store.heard(conversation.id).await?.into_iter().filter_map(|heard| Spoken::heard(app, heard)));
        all.extend(store.said(conversation.id).await?.into_iter().map(Spoken::said));
    }
    all.sort_by_key(|line| line.timestamp);
    Ok((idle, all))
}

#[derive(Deserialize)]
struct Words {
    message: String,
    /// `web` unless the terminal says otherwise.
    platform: Option<Local>,
    /// What a conversation that begins with this message is about.
    codebase: Option<String>,
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
    Body(words): Body<Words>,
) -> Result<(StatusCode, Json<Value>), Fault> {
    let platform = match words.platform {
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
        event: Event::Message { text: words.message, context: None, hints: Default::default() },
    };
    check(&incoming)?;
    let codebase = match &words.codebase {
        Some(name) => Some(app.talks.codebases.named(name).await?),
        None => None,
    };
    let accepted = app.talks.accept_about(&incoming, codebase.as_ref()).await?;
    metrics::counter!("grove_messages_accepted_total", "adapter" => platform).increment(1);
    let (conversation, message) = (incoming.conversation, accepted.message);
    Ok((StatusCode::ACCEPTED, Json(json!({ "accepted": true, "conversationId": conversation, "messageId": message }))))
}
