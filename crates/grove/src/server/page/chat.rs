//! The messages of a conversation.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::get;
use grove_environments::problem::Problem;
use maud::{Markup, html};

use super::super::ServerState;
use super::super::api::conversations::{ConversationLine, load_history};
use super::super::fault::{HttpError, bad_query};
use super::{ConversationQuery, WEB_PLATFORM, text, time};

/// The number of latest lines that are shown.
const MAX_SHOWN_LINES: usize = 200;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/page/chat", get(show_chat))
}

async fn show_chat(
    State(app): State<Arc<ServerState>>,
    query: Result<Query<ConversationQuery>, QueryRejection>,
) -> Result<Markup, HttpError> {
    let Query(ConversationQuery { c }) = query.map_err(|rejection| bad_query(&rejection))?;
    let id = c.ok_or_else(|| Problem::new("bad_request", "It is not said which conversation.", "Give `c`."))?;
    render_log(&app, &id).await
}

/// Renders the conversation. `data-busy` and `data-answers` tell the script when the live bubble is done.
pub async fn render_log(app: &ServerState, id: &str) -> Result<Markup, HttpError> {
    let (idle, lines) = load_history(app, id, Some(WEB_PLATFORM)).await?;
    let shell = is_shell(app, id).await?;
    let answers = lines.iter().filter(|line| line.kind == "answer").count();
    let left_out = lines.len().saturating_sub(MAX_SHOWN_LINES);
    if lines.is_empty() {
        return render_empty_log(app, shell).await;
    }
    Ok(html! {
        @if left_out > 0 { p class="dim" { "The first " (left_out) " lines are not shown here." } }
        ol class={ "log" @if shell { " shell" } } data-busy=(!idle) data-answers=(answers) {
            @for line in &lines[left_out..] { (render_line(line, shell)) }
        }
    })
}

fn render_line(line: &ConversationLine, shell: bool) -> Markup {
    let class = if line.role == "user" { "user" } else { line.kind };
    html! {
        li class={ "line " (class) } {
            @if class == "notice" {
                p { (text::render_sentence(&line.message)) }
            } @else {
                p class="who" {
                    @if class == "user" { "You" } @else { "Grovekeeper" }
                    " · " (time::render_ago(line.timestamp))
                }
                // In a shell, backticks are commands.
                div class="said" { @if shell && class == "user" { p { (line.message) } } @else { (text::render_message(&line.message)) } }
            }
        }
    }
}

/// Tells whether messages go to the shell, whose answers need a fixed-width font.
async fn is_shell(app: &ServerState, id: &str) -> Result<bool, HttpError> {
    let known = app.conversations.store.conversations_called(id).await?;
    let conversation = known.into_iter().find(|conversation| conversation.platform == WEB_PLATFORM);
    let mut wanted = conversation.as_ref().and_then(|conversation| conversation.agent.clone());
    if let (None, Some(conversation)) = (&wanted, &conversation) {
        wanted = app.conversations.codebase_of(conversation).await?.and_then(|codebase| codebase.ai_assistant_type);
    }
    Ok(app.conversations.agents.choose_agent(wanted.as_deref(), WEB_PLATFORM).is_ok_and(|agent| agent.name() == "sh"))
}

/// Renders a conversation without messages: suggestions for the first message.
async fn render_empty_log(app: &ServerState, shell: bool) -> Result<Markup, HttpError> {
    let codebases = app.conversations.store.list_codebases().await?;
    let first = if shell { "git log --oneline -3" } else { "What is this project about?" };
    Ok(html! {
        div class="empty" data-busy="false" data-answers="0" {
            h2 { "What would you like to do?" }
            @if codebases.is_empty() {
                p { "No repository is registered yet. Name one, by path or address:" }
                p class="try" { "Try: " code { "/register PATH" } }
            } @else {
                p {
                    "Your first message gets a branch and a worktree of its own; your checkout is not touched. "
                    @if shell { "No agent is configured, so what you type runs in a shell there." }
                }
                p class="try" { "Try: " code { (first) } }
                @if codebases.len() > 1 { p class="dim" { code { "/codebase NAME" } " chooses the repository." } }
            }
            p class="dim" { code { "/help" } " lists all commands." }
        }
    })
}
