//! Removing an environment: first the plan, then the removal, then the undo.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{delete, get, post};
use grove_conversations::conversations::ConversationEvent;
use grove_environments::remove::{
    RemovableEnvironment, RemovalPlan, RemovalRequester, RemoveOptions, RemoveOutcome, RestoredEnvironment,
};
use grove_environments::words;
use grove_environments::words::done::{branch_words, folder_words, folders_gone, folders_kept, folders_planned};
use grove_git::removal::{BranchFate, WorktreeFingerprint};
use grove_model::Environment;
use jiff::SignedDuration;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::super::ServerState;
use super::super::api::worktrees::resolve_environment;
use super::super::fault::HttpError;
use super::super::query::QueryParams;
use super::text;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new()
        .route("/page/worktrees/{id}/plan", get(show_removal_plan))
        .route("/page/worktrees/{id}", delete(remove_worktree))
        .route("/page/worktrees/{id}/undo", post(undo_removal))
}

/// Renders the inside of the dialog.
async fn show_removal_plan(State(app): State<Arc<ServerState>>, Path(id): Path<String>) -> Result<Markup, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let plan = app.conversations.environments.plan_removal(&codebase, &environment, &RemovalRequester::Person).await?;
    let days = app.conversations.settings.current().trash_keep_days();
    let (title, words, buttons) = match &plan {
        RemovalPlan::Gone => (
            "Forget",
            html! { p { "Its folder is gone already. Its record ends." } },
            render_remove_button(&environment, "Forget", false, None),
        ),
        RemovalPlan::Release => (
            "Release",
            html! { p { "Grovekeeper did not make this worktree, so it stays where it is. Its record ends." } },
            render_remove_button(&environment, "Release", false, None),
        ),
        RemovalPlan::Remove(removable) => {
            let keep = app.conversations.settings.current().regenerable_keep();
            (
                "Remove",
                render_consequences(&environment, removable, days, keep),
                render_remove_choice(&environment, removable),
            )
        }
    };
    Ok(html! {
        h2 id="dialog-title" { (title) " " code { (environment.branch) } "?" }
        (words)
        p class="note bad" role="alert" {}
        form method="dialog" class="choice" {
            button class="button" autofocus { "Cancel" }
            (buttons)
        }
    })
}

/// Renders the reasons against the removal, the fate of the branch, and the note that it can be undone.
fn render_consequences(
    environment: &Environment,
    removable: &RemovableEnvironment,
    days: u64,
    keep: SignedDuration,
) -> Markup {
    let branch = environment.branch.as_str();
    let against = removable.blocking_reasons(false);
    html! {
        @if against.is_empty() {
            p { "Nothing is in the way." }
        } @else {
            p { "Before you remove it:" }
            ul class="reasons" {
                @for (question, answer) in &against {
                    @let reason = words::describe_reason(*question, answer, branch);
                    li { (text::render_sentence(reason.message.as_str())) " " span class="dim" { (text::render_sentence(reason.hint.as_str())) } }
                }
            }
        }
        p {
            @match removable.branch_fate() {
                BranchFate::Goes { .. } => "The branch goes too: everything on it is elsewhere.",
                fate => (text::render_sentence(branch_words(branch, fate).as_str())),
            }
        }
        p { "It is kept for " (days) " days and can be undone." }
        @if let Some(words) = folders_planned(removable.regenerable_folders(), keep) {
            p { (words) }
            ul {
                @for folder in removable.regenerable_folders() {
                    li { (text::render_sentence(&folder_words(&folder.path, folder.bytes))) }
                }
            }
        }
        @if !removable.blocking_reasons(true).is_empty() {
            p { "It cannot be removed as long as a worktree inside it would break." }
        }
    }
}

fn render_remove_choice(environment: &Environment, removable: &RemovableEnvironment) -> Markup {
    let seen = Some(removable.seen_fingerprint());
    if removable.blocking_reasons(false).is_empty() {
        render_remove_button(environment, "Remove", false, seen)
    } else if removable.blocking_reasons(true).is_empty() {
        render_remove_button(environment, "Remove anyway", true, seen)
    } else {
        html! {}
    }
}

/// Renders the button. It sends the shown state along, so that any change since then is shown before the
/// removal.
fn render_remove_button(
    environment: &Environment,
    word: &str,
    force: bool,
    seen: Option<&WorktreeFingerprint>,
) -> Markup {
    let mut values = json!({ "force": force });
    if let Some(seen) = seen {
        values["seen"] = json!(seen);
    }
    html! {
        button type="button" class={ "button " @if force { "danger" } @else { "main" } }
            hx-delete={ "/page/worktrees/" (environment.id) } hx-vals=(values) hx-target="#status"
            hx-sync="this:drop" { (word) }
    }
}

#[derive(Deserialize)]
struct RemovalQuery {
    #[serde(default)]
    force: bool,
    seen: Option<WorktreeFingerprint>,
}

/// Removes the worktree and renders the line that reports it.
async fn remove_worktree(
    State(app): State<Arc<ServerState>>,
    Path(id): Path<String>,
    QueryParams(RemovalQuery { force, seen }): QueryParams<RemovalQuery>,
) -> Result<Markup, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let wish = RemoveOptions { force, seen, ..RemoveOptions::default() };
    let removed = app.conversations.environments.remove_environment(&codebase, &environment, &wish).await?;
    app.conversations.tell_watchers(ConversationEvent::Worktrees);
    let days = app.conversations.settings.current().trash_keep_days();
    let branch = environment.branch.as_str();
    Ok(match &removed {
        RemoveOutcome::Gone => render_note(&format!("`{branch}` is forgotten."), &html! {}),
        RemoveOutcome::Released(_) => render_note(&format!("`{branch}` is released; its folder stays."), &html! {}),
        RemoveOutcome::Trashed { fate, branch_kept, regenerable, .. } => {
            let kept = if *branch_kept { format!(" {}", branch_words(branch, fate)) } else { String::new() };
            let folders = folders_kept(regenerable).map(|words| format!(" {words}")).unwrap_or_default();
            render_note(
                &format!("Removed `{branch}`.{kept} It is kept for {days} days.{folders}"),
                &html! {
                    button type="button" id="undo" class="button small" hx-target="#status" hx-sync="this:drop"
                        hx-post={ "/page/worktrees/" (environment.id) "/undo" } { "Undo" }
                },
            )
        }
    })
}

async fn undo_removal(State(app): State<Arc<ServerState>>, Path(id): Path<String>) -> Result<Markup, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let RestoredEnvironment { environment, gone } =
        app.conversations.environments.undo_removal(&codebase, &environment).await?;
    app.conversations.tell_watchers(ConversationEvent::Worktrees);
    let words = match folders_gone(&gone) {
        None => format!("`{}` is back as it was.", environment.branch),
        Some(gone) => format!("`{}` is back. {gone}", environment.branch),
    };
    Ok(render_note(&words, &html! {}))
}

fn render_note(words: &str, more: &Markup) -> Markup {
    html! {
        span { (text::render_sentence(words)) }
        (more)
        button type="button" class="button small quiet" data-dismiss { "Close" }
    }
}
