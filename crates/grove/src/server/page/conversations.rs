//! The latest conversations of this page.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use grove_model::IncomingPayload;
use grove_store::Conversation;
use maud::{Markup, html};

use super::super::ServerState;
use super::super::fault::HttpError;
use super::super::query::QueryParams;
use super::{ConversationQuery, WEB_PLATFORM, address_of, time};

/// The number of listed conversations.
const MAX_LISTED_CONVERSATIONS: usize = 20;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/page/conversations", get(show_conversations))
}

async fn show_conversations(
    State(app): State<Arc<ServerState>>,
    QueryParams(ConversationQuery { c, .. }): QueryParams<ConversationQuery>,
) -> Result<Markup, HttpError> {
    render_conversations(&app, c.as_deref().unwrap_or_default()).await
}

pub async fn render_conversations(app: &ServerState, current: &str) -> Result<Markup, HttpError> {
    let mut known = app.conversations.store.recent_conversations(WEB_PLATFORM).await?;
    known.truncate(MAX_LISTED_CONVERSATIONS);
    let is_new = !known.iter().any(|conversation| conversation.name == current);
    let codebases = app.conversations.store.list_codebases().await?;
    let codebase_name = |conversation: &Conversation| {
        let codebase = codebases.iter().find(|codebase| Some(codebase.id) == conversation.codebase);
        codebase.filter(|_| codebases.len() > 1).map(|codebase| codebase.name.as_str())
    };
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
                        span class="dim" {
                            @if let Some(name) = codebase_name(conversation) { (name) " · " }
                            @if let Some(at) = conversation.last_activity_at { (time::render_ago(at)) }
                        }
                    }
                }
            }
        }
    })
}

/// Returns the title; for a conversation without one, the first line of its first message.
async fn conversation_title(app: &ServerState, conversation: &Conversation) -> Result<String, HttpError> {
    if let Some(title) = &conversation.title {
        return Ok(title.clone());
    }
    let first = app.conversations.store.first_heard(conversation.id).await?;
    let Some(IncomingPayload::Message { text, .. }) = first.map(|message| message.event) else {
        return Ok(conversation.name.clone());
    };
    let clean = app.conversations.redactor.redact_text(&text);
    Ok(clean.trim().lines().next().unwrap_or_default().to_owned())
}
