//! What was said in a conversation.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::get;
use grove_environments::problem::Problem;
use maud::{Markup, html};

use super::super::App;
use super::super::api::conversations::{Spoken, history};
use super::super::fault::{Fault, bad_query};
use super::{PLATFORM, Which, text, time};

/// So many of the latest lines are shown.
const MOST: usize = 200;

pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/page/chat", get(chat))
}

async fn chat(State(app): State<Arc<App>>, query: Result<Query<Which>, QueryRejection>) -> Result<Markup, Fault> {
    let Query(Which { c }) = query.map_err(|rejection| bad_query(&rejection))?;
    let id = c.ok_or_else(|| Problem::new("bad_request", "It is not said which conversation.", "Give `c`."))?;
    log(&app, &id).await
}

/// The conversation. `data-busy` and `data-answers` tell the script when the live bubble is done.
pub async fn log(app: &App, id: &str) -> Result<Markup, Fault> {
    let (idle, lines) = history(app, id, Some(PLATFORM)).await?;
    let shell = is_shell(app, id).await?;
    let answers = lines.iter().filter(|line| line.kind == "answer").count();
    let left_out = lines.len().saturating_sub(MOST);
    if lines.is_empty() {
        return empty(app, shell).await;
    }
    Ok(html! {
        @if left_out > 0 { p class="dim" { "The first " (left_out) " lines are not shown here." } }
        ol class={ "log" @if shell { " shell" } } data-busy=(!idle) data-answers=(answers) {
            @for line in &lines[left_out..] { (one(line, shell)) }
        }
    })
}

fn one(line: &Spoken, shell: bool) -> Markup {
    let class = if line.role == "user" { "user" } else { line.kind };
    html! {
        li class={ "line " (class) } {
            @if class == "notice" {
                p { (text::sentence(&line.message)) }
            } @else {
                p class="who" {
                    @if class == "user" { "You" } @else { "Grovekeeper" }
                    " · " (time::ago(line.timestamp))
                }
                // A shell's backticks are commands.
                div class="said" { @if shell && class == "user" { p { (line.message) } } @else { (text::message(&line.message)) } }
            }
        }
    }
}

/// Whether messages go to the shell, whose answers want a fixed width.
async fn is_shell(app: &App, id: &str) -> Result<bool, Fault> {
    let known = app.talks.store.conversations_called(id).await?;
    let conversation = known.into_iter().find(|conversation| conversation.platform == PLATFORM);
    let mut wanted = conversation.as_ref().and_then(|conversation| conversation.agent.clone());
    if let (None, Some(conversation)) = (&wanted, &conversation) {
        wanted = app.talks.codebase_of(conversation).await?.and_then(|codebase| codebase.ai_assistant_type);
    }
    Ok(app.talks.agents.choose(wanted.as_deref(), PLATFORM).is_ok_and(|agent| agent.name() == "sh"))
}

/// Nothing was said yet: what to say first.
async fn empty(app: &App, shell: bool) -> Result<Markup, Fault> {
    let codebases = app.talks.store.codebases().await?;
    let first = if shell { "git log --oneline -3" } else { "What is this project about?" };
    Ok(html! {
        div class="empty" data-busy="false" data-answers="0" {
            h2 { "What shall be done?" }
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
