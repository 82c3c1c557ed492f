//! The latest conversations of this page, each titled by its first words.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::get;
use grove_model::IncomingPayload;
use grove_store::Conversation;
use maud::{Markup, html};

use super::super::ServerState;
use super::super::fault::{HttpError, bad_query};
use super::{ConversationQuery, WEB_PLATFORM, address_of, time};

/// The number of listed conversations.
const MAX_LISTED_CONVERSATIONS: usize = 20;

/// The longest title.
const MAX_TITLE_CHARS: usize = 60;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/page/conversations", get(show_conversations))
}

async fn show_conversations(
    State(app): State<Arc<ServerState>>,
    query: Result<Query<ConversationQuery>, QueryRejection>,
) -> Result<Markup, HttpError> {
    let Query(ConversationQuery { c }) = query.map_err(|rejection| bad_query(&rejection))?;
    render_conversations(&app, c.as_deref().unwrap_or_default()).await
}

pub async fn render_conversations(app: &ServerState, current: &str) -> Result<Markup, HttpError> {
    let mut known = app.conversations.store.recent_conversations(WEB_PLATFORM).await?;
    known.truncate(MAX_LISTED_CONVERSATIONS);
    let is_new = !known.iter().any(|conversation| conversation.name == current);
    let mut titled = Vec::new();
    for conversation in known {
        titled.push((conversation_title(app, &conversation).await?, conversation));
    }
    Ok(html! {
        ul {
            @if is_new { li { a href=(address_of(current)) aria-current="page" { "New conversation" } } }
            @for (title, conversation) in &titled {
                li {
                    a href=(address_of(&conversation.name)) aria-current=[(conversation.name == current).then_some("page")] {
                        span class="title" { (title) }
                        @if let Some(at) = conversation.last_activity_at { span class="dim" { (time::render_ago(at)) } }
                    }
                }
            }
        }
    })
}

/// Returns the beginning of the first message.
async fn conversation_title(app: &ServerState, conversation: &Conversation) -> Result<String, HttpError> {
    let first = app.conversations.store.first_heard(conversation.id).await?;
    let Some(IncomingPayload::Message { text, .. }) = first.map(|message| message.event) else {
        return Ok(conversation.name.clone());
    };
    let clean = app.conversations.redactor.redact_text(&text);
    let line = clean.trim().lines().next().unwrap_or_default();
    let short: String = line.chars().take(MAX_TITLE_CHARS).collect();
    Ok(if short.len() < line.len() { format!("{short}…") } else { short })
}
