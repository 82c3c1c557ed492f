//! `GET /`: the conversation, the list of conversations, and the environments.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use grove_environments::problem::Problem;
use grove_model::Codebase;
use maud::{Markup, html};

use super::super::ServerState;
use super::super::fault::HttpError;
use super::super::query::QueryParams;
use super::super::token::random_hex;
use super::chat::{self, ChatLog};
use super::settings::render_settings_notice;
use super::{ConversationQuery, WEB_PLATFORM, conversations, layout, page_query};
use crate::words;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/", get(show_home))
}

async fn show_home(
    State(app): State<Arc<ServerState>>,
    query: Result<QueryParams<ConversationQuery>, HttpError>,
) -> Response {
    match render_home(&app, query).await {
        Ok(page) => page.into_response(),
        Err(fault) => fault.into_page(),
    }
}

async fn render_home(
    app: &ServerState,
    query: Result<QueryParams<ConversationQuery>, HttpError>,
) -> Result<Markup, HttpError> {
    let QueryParams(ConversationQuery { c, codebase }) = query?;
    let codebases = app.conversations.store.list_codebases().await?;
    let wanted = codebase.and_then(|name| codebases.iter().find(|codebase| codebase.name == name));
    let id = match c.filter(|id| !id.trim().is_empty()) {
        Some(id) => Some(id),
        None => latest_conversation(app, &codebases, wanted).await?,
    };
    let id = match id {
        Some(id) => id,
        None => new_id()?,
    };
    let log = chat::render_log(app, &id).await?;
    let others = conversations::render_conversations(app, &id).await?;
    let next = next_address(&new_id()?, log.codebase.as_deref().or(wanted.map(|codebase| codebase.name.as_str())));
    let picker = (codebases.len() > 1).then(|| render_picker(&codebases, wanted, &log));
    let body = render_body(&id, &next, &log, &others, picker.as_ref(), &render_settings_notice(app));
    Ok(layout::render_page(&id, log.title.as_deref(), &body))
}

/// Returns the last conversation of this page, or that about a codebase.
async fn latest_conversation(
    app: &ServerState,
    codebases: &[Codebase],
    wanted: Option<&Codebase>,
) -> Result<Option<String>, HttpError> {
    let recent = app.conversations.store.recent_conversations(WEB_PLATFORM).await?;
    let wanted = wanted.filter(|_| codebases.len() > 1).map(|codebase| codebase.id);
    let latest =
        recent.into_iter().find(|conversation| wanted.is_none_or(|wanted| conversation.codebase == Some(wanted)));
    Ok(latest.map(|conversation| conversation.name))
}

/// Returns the address of a new conversation, about the same codebase.
fn next_address(id: &str, codebase: Option<&str>) -> String {
    let pairs: Vec<(&str, &str)> = [("c", id)].into_iter().chain(codebase.map(|name| ("codebase", name))).collect();
    format!("/{}", page_query(&pairs))
}

/// Renders the choice of the codebase of a new conversation. Where it is chosen, its name stands there; where
/// the last answer asks for it, the buttons of that answer choose it.
fn render_picker(codebases: &[Codebase], wanted: Option<&Codebase>, log: &ChatLog) -> Markup {
    html! {
        span id="about" class="about" {
            @if let Some(name) = &log.codebase { "in " (name) }
        }
        label id="picker" class="about" hidden[log.codebase.is_some() || log.asks] {
            "Repository "
            select id="codebase" name="codebase" {
                option value="" { "Choose…" }
                @for codebase in codebases {
                    option value=(codebase.name) selected[wanted.is_some_and(|wanted| wanted.id == codebase.id)] {
                        (codebase.name)
                    }
                }
            }
        }
    }
}

/// Returns a new id for a conversation that does not exist yet.
fn new_id() -> Result<String, Problem> {
    let random = random_hex(8).map_err(|error| words::no_random_page_id(&error))?;
    Ok(format!("{WEB_PLATFORM}-{random}"))
}

fn render_body(
    id: &str,
    next: &str,
    log: &ChatLog,
    others: &Markup,
    picker: Option<&Markup>,
    settings: &Markup,
) -> Markup {
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
            a class="button quiet" href=(next) { "New conversation" }
        }
        div class="notes" {
            div id="settings" class="note bad" role="alert" hx-get="/page/settings" hx-trigger="refresh" { (settings) }
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
                h1 class="unseen" { (log.title.as_deref().unwrap_or("Conversation")) }
                div id="scroll" class="scroll" tabindex="0" role="region" aria-label="Messages" {
                    div id="chat" hx-get="/page/chat" hx-vals=(which) hx-trigger="refresh" hx-sync="this:queue last" {
                        (log.html)
                    }
                    div id="live" class="line answer" hidden {
                        p class="who" { "Grovekeeper" }
                        div class="said" { p id="live-text" {} }
                    }
                    div id="working" class="working" hidden {
                        span class="pulse" aria-hidden="true" {}
                        span id="working-text" { "Working…" }
                        button id="stop" type="button" class="button small" { "Stop" }
                    }
                }
                div id="announce" class="unseen" aria-live="polite" {}
                form id="say" class="say" {
                    label for="message" class="unseen" { "Message" }
                    textarea id="message" name="message" rows="2" autocomplete="off" aria-describedby="keys"
                        placeholder="Say what to do" {}
                    div class="send" {
                        @if let Some(picker) = picker { (picker) }
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
