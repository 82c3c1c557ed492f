//! `GET /`: the conversation, the list of conversations, and the environments.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use grove_environments::problem::Problem;
use maud::{Markup, html};

use super::super::ServerState;
use super::super::fault::{HttpError, bad_query};
use super::super::token::random_hex;
use super::{ConversationQuery, WEB_PLATFORM, address_of, chat, conversations, layout};

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/", get(show_home))
}

async fn show_home(
    State(app): State<Arc<ServerState>>,
    query: Result<Query<ConversationQuery>, QueryRejection>,
) -> Response {
    match render_home(&app, query).await {
        Ok(page) => page.into_response(),
        Err(fault) => fault.into_page(),
    }
}

async fn render_home(
    app: &ServerState,
    query: Result<Query<ConversationQuery>, QueryRejection>,
) -> Result<Markup, HttpError> {
    let Query(ConversationQuery { c }) = query.map_err(|rejection| bad_query(&rejection))?;
    let recent = app.conversations.store.recent_conversations(WEB_PLATFORM).await?;
    let latest = recent.into_iter().next().map(|conversation| conversation.name);
    let id = match c.filter(|id| !id.trim().is_empty()).or(latest) {
        Some(id) => id,
        None => new_id()?,
    };
    let log = chat::render_log(app, &id).await?;
    let others = conversations::render_conversations(app, &id).await?;
    Ok(layout::render_page(&id, &render_body(&id, &new_id()?, &log, &others)))
}

/// Returns a new id for a conversation that does not exist yet.
fn new_id() -> Result<String, Problem> {
    let random = random_hex(8).map_err(|error| {
        Problem::new("not_random", format!("No conversation can be begun: {error}."), "Load the page again.")
    })?;
    Ok(format!("{WEB_PLATFORM}-{random}"))
}

fn render_body(id: &str, next: &str, log: &Markup, others: &Markup) -> Markup {
    let which = serde_json::json!({ "c": id }).to_string();
    html! {
        a class="skip" href="#message" { "Skip to the message" }
        header class="top" {
            a class="brand" href="/" {
                img src="/assets/icon.svg" alt="" width="28" height="28";
                "Grovekeeper"
            }
            span id="connection" class="lost" role="status" {}
            nav class="jump" aria-label="On this page" { a href="#environments" { "Environments" } }
            a class="button quiet" href=(address_of(next)) { "New conversation" }
        }
        div class="notes" {
            div id="alert" class="note bad" role="alert" {}
            div id="status" class="note" role="status" {}
        }
        main class="desk" {
            details id="conversations" class="conversations" {
                summary { h2 { "Conversations" } }
                nav id="others" aria-label="Conversations" hx-get="/page/conversations" hx-vals=(which)
                    hx-trigger="refresh" hx-sync="this:queue last" { (others) }
                button type="button" class="button small quiet" hx-delete="/api/session" hx-swap="none" { "Sign out" }
            }
            section class="chat" aria-label="Conversation" {
                h1 class="unseen" { "Conversation" }
                div id="scroll" class="scroll" tabindex="0" role="region" aria-label="Messages" {
                    div id="chat" hx-get="/page/chat" hx-vals=(which) hx-trigger="refresh" hx-sync="this:queue last" {
                        (log)
                    }
                    div id="live" class="line answer" hidden {
                        p class="who" { "Grovekeeper" }
                        div class="said" { p id="live-text" {} }
                    }
                    div id="working" class="working" hidden {
                        span class="pulse" aria-hidden="true" {}
                        span { "Working…" }
                        button id="stop" type="button" class="button small" { "Stop" }
                    }
                }
                div id="announce" class="unseen" aria-live="polite" {}
                form id="say" class="say" {
                    label for="message" class="unseen" { "Message" }
                    textarea id="message" name="message" rows="2" autocomplete="off" aria-describedby="keys"
                        placeholder="Say what to do" {}
                    div class="send" {
                        span id="keys" class="dim" { kbd { "Enter" } " sends, " kbd { "Shift" } "+" kbd { "Enter" } " begins a line" }
                        button id="send" type="submit" class="button main" disabled { "Send" }
                    }
                }
            }
            section id="environments" class="environments" aria-labelledby="environments-title" tabindex="-1" {
                h2 id="environments-title" { "Environments" }
                div id="worktrees" hx-get="/page/worktrees" hx-trigger="load, refresh" hx-sync="this:queue last" {
                    p class="dim" { "Looking at the environments…" }
                }
            }
        }
        dialog id="dialog" aria-labelledby="dialog-title" {}
        noscript { p class="note bad" { "This page needs JavaScript. In a terminal, " code { "grove help" } " shows the way." } }
    }
}
