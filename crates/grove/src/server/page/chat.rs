//! The messages of a conversation.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use maud::{Markup, html};

use super::super::ServerState;
use super::super::api::conversations::{ConversationHistory, is_shell, load_history};
use super::super::fault::HttpError;
use super::super::query::QueryParams;
use super::super::trace::record_conversation;
use super::{ConversationQuery, WEB_PLATFORM, text, time};
use crate::api_json::{ChoiceJson, ConversationLineJson, LineKind};
use crate::words;

/// The number of latest lines that are shown.
const MAX_SHOWN_LINES: usize = 200;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/page/chat", get(show_chat))
}

async fn show_chat(
    State(app): State<Arc<ServerState>>,
    QueryParams(ConversationQuery { c, .. }): QueryParams<ConversationQuery>,
) -> Result<Markup, HttpError> {
    let id = c.ok_or_else(words::no_conversation_named)?;
    Ok(render_log(&app, &id).await?.html)
}

/// A rendered conversation, and what the composer below it needs to know.
pub struct ChatLog {
    pub html: Markup,
    pub title: Option<String>,
    /// The name of the conversation's codebase.
    pub codebase: Option<String>,
    /// The last answer asks for the codebase, with buttons.
    pub asks: bool,
}

/// Renders the conversation. `data-busy` and `data-answers` tell the script when the live bubble is done,
/// `data-codebase` and `data-asks` whether the composer offers the codebases.
pub async fn render_log(app: &ServerState, id: &str) -> Result<ChatLog, HttpError> {
    record_conversation(id);
    let ConversationHistory { idle, lines, conversation } = load_history(app, id, Some(WEB_PLATFORM)).await?;
    let codebase = match &conversation {
        Some(conversation) => app.conversations.codebase_of(conversation).await?,
        None => None,
    };
    let shell = is_shell(app, conversation.as_ref()).await?;
    let codebase = codebase.map(|codebase| codebase.name);
    let offers = idle && lines.last().is_some_and(|line| line.choice.is_some());
    let asks = offers && codebase.is_none();
    let answers = lines.iter().filter(|line| line.kind == LineKind::Answer).count();
    let left_out = lines.len().saturating_sub(MAX_SHOWN_LINES);
    if lines.is_empty() {
        return Ok(ChatLog { html: render_empty_log(app, shell).await?, title: None, codebase, asks });
    }
    let last = lines.len() - 1;
    let html = html! {
        @if left_out > 0 { p class="dim" { "The first " (left_out) " lines are not shown here." } }
        ol class={ "log" @if shell { " shell" } } data-busy=(!idle) data-answers=(answers)
            data-codebase=(codebase.as_deref().unwrap_or_default()) data-asks=(asks) {
            @for (index, line) in lines.iter().enumerate().skip(left_out) {
                @match &line.choice {
                    Some(choice) if offers && index == last => (render_choice(line, choice, asks)),
                    _ => (render_line(line, shell)),
                }
            }
        }
    };
    Ok(ChatLog { html, title: conversation.and_then(|conversation| conversation.title), codebase, asks })
}

/// Renders a question that waits for its answer: a button for each option. Beside the buttons for codebases
/// their names are not repeated.
fn render_choice(line: &ConversationLineJson, choice: &ChoiceJson, asks: bool) -> Markup {
    html! {
        li class="line answer" {
            p class="who" { "Grovekeeper · " (time::render_ago(line.timestamp)) }
            div class="said" {
                @if asks { p { (choice.question) } } @else { (text::render_message(&line.message)) }
                div class="options" role="group" aria-label=(choice.question) {
                    @for (index, option) in choice.options.iter().enumerate() {
                        button type="button" class="button" id={ "option-" (index) } data-option=(option.text) { (option.label) }
                    }
                }
            }
        }
    }
}

fn render_line(line: &ConversationLineJson, shell: bool) -> Markup {
    let class = match line.kind {
        LineKind::Message => "user",
        LineKind::Notice => "notice",
        LineKind::Answer => "answer",
    };
    html! {
        li class={ "line " (class) } {
            @if class == "notice" {
                p { (text::render_sentence(&line.message)) }
            } @else {
                p class="who" {
                    @if class == "user" { "You" } @else { "Grovekeeper" }
                    " · " (time::render_ago(line.timestamp))
                }
                div class="said" {
                    @match line.kind {
                        // In a shell, backticks are commands.
                        LineKind::Message if shell => p { (line.message) },
                        LineKind::Answer if !shell => (text::render_answer(&line.message)),
                        _ => (text::render_message(&line.message)),
                    }
                }
            }
        }
    }
}

/// Renders a conversation without messages: suggestions for the first message.
async fn render_empty_log(app: &ServerState, shell: bool) -> Result<Markup, HttpError> {
    let codebases = app.conversations.store.list_codebases().await?;
    let first = if shell { "git log --oneline -3" } else { "What is this project about?" };
    Ok(html! {
        div class="empty" data-busy="false" data-answers="0" data-codebase="" data-asks="false" {
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
            }
            p class="dim" { code { "/help" } " lists all commands." }
        }
    })
}
