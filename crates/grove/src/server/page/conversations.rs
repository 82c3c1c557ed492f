//! The latest conversations of this page, each by its first words.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::get;
use grove_model::Event;
use grove_store::Conversation;
use maud::{Markup, html};

use super::super::App;
use super::super::fault::{Fault, bad_query};
use super::{PLATFORM, Which, address_of, time};

/// So many are listed.
const MOST: usize = 20;

/// The longest title.
const LONGEST: usize = 60;

pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/page/conversations", get(show))
}

async fn show(State(app): State<Arc<App>>, query: Result<Query<Which>, QueryRejection>) -> Result<Markup, Fault> {
    let Query(Which { c }) = query.map_err(|rejection| bad_query(&rejection))?;
    list(&app, c.as_deref().unwrap_or_default()).await
}

pub async fn list(app: &App, current: &str) -> Result<Markup, Fault> {
    let mut known = app.talks.store.recent_conversations(PLATFORM).await?;
    known.truncate(MOST);
    let is_new = !known.iter().any(|conversation| conversation.name == current);
    let mut titled = Vec::new();
    for conversation in known {
        titled.push((title(app, &conversation).await?, conversation));
    }
    Ok(html! {
        ul {
            @if is_new { li { a href=(address_of(current)) aria-current="page" { "New conversation" } } }
            @for (title, conversation) in &titled {
                li {
                    a href=(address_of(&conversation.name)) aria-current=[(conversation.name == current).then_some("page")] {
                        span class="title" { (title) }
                        @if let Some(at) = conversation.last_activity_at { span class="dim" { (time::ago(at)) } }
                    }
                }
            }
        }
    })
}

/// The beginning of what was said first.
async fn title(app: &App, conversation: &Conversation) -> Result<String, Fault> {
    let first = app.talks.store.first_heard(conversation.id).await?;
    let Some(Event::Message { text, .. }) = first.map(|message| message.event) else {
        return Ok(conversation.name.clone());
    };
    let clean = app.talks.redactor.clean(&text);
    let line = clean.trim().lines().next().unwrap_or_default();
    let short: String = line.chars().take(LONGEST).collect();
    Ok(if short.len() < line.len() { format!("{short}…") } else { short })
}
