//! Removing an environment: the plan first, then the removal, then the way back.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::routing::{delete, get, post};
use grove_conversations::conversations::TalkEvent;
use grove_environments::remove::{Asker, Plan, Removable, RemovalWish, Removed, Restored};
use grove_environments::words;
use grove_environments::words::done::{branch_words, folder_words, folders_gone, folders_kept, folders_planned};
use grove_git::removal::{BranchFate, Fingerprint};
use grove_model::Environment;
use jiff::SignedDuration;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::super::App;
use super::super::api::worktrees::found;
use super::super::fault::{Fault, bad_query};
use super::text;

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/page/worktrees/{id}/plan", get(plan))
        .route("/page/worktrees/{id}", delete(remove))
        .route("/page/worktrees/{id}/undo", post(undo))
}

/// The inside of the dialog.
async fn plan(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Markup, Fault> {
    let (codebase, environment) = found(&app, &id).await?;
    let plan = app.talks.isolation.plan_removal(&codebase, &environment, &Asker::Person).await?;
    let days = app.talks.settings.trash_keep_days();
    let (title, words, buttons) = match &plan {
        Plan::Gone => (
            "Forget",
            html! { p { "Its folder is gone already. Its record ends." } },
            button(&environment, "Forget", false, None),
        ),
        Plan::Release => (
            "Release",
            html! { p { "Somebody else made this worktree, so it stays where it is. Its record ends." } },
            button(&environment, "Release", false, None),
        ),
        Plan::Remove(removable) => {
            let keep = app.talks.settings.regenerable_keep();
            ("Remove", told(&environment, removable, days, keep), choice(&environment, removable))
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

/// What speaks against it, what becomes of the branch, and that it can be undone.
fn told(environment: &Environment, removable: &Removable, days: u64, keep: SignedDuration) -> Markup {
    let branch = environment.branch.as_str();
    let against = removable.reasons(false);
    html! {
        @if against.is_empty() {
            p { "Nothing speaks against it." }
        } @else {
            p { "This speaks against it:" }
            ul class="reasons" {
                @for (question, answer) in &against {
                    @let reason = words::reason(*question, answer, branch);
                    li { (text::sentence(&reason.message)) " " span class="dim" { (text::sentence(&reason.hint)) } }
                }
            }
        }
        p {
            @match removable.branch() {
                BranchFate::Goes { .. } => "The branch goes too: everything on it is elsewhere.",
                fate => (text::sentence(&branch_words(branch, fate))),
            }
        }
        p { "It is kept for " (days) " days and can be undone." }
        @if let Some(words) = folders_planned(removable.regenerable(), keep) {
            p { (words) }
            ul {
                @for folder in removable.regenerable() {
                    li { (text::sentence(&folder_words(&folder.path, folder.bytes))) }
                }
            }
        }
        @if !removable.reasons(true).is_empty() {
            p { "It cannot be removed as long as a worktree inside it would break." }
        }
    }
}

fn choice(environment: &Environment, removable: &Removable) -> Markup {
    let seen = Some(removable.fingerprint());
    if removable.reasons(false).is_empty() {
        button(environment, "Remove", false, seen)
    } else if removable.reasons(true).is_empty() {
        button(environment, "Remove anyway", true, seen)
    } else {
        html! {}
    }
}

/// What was shown goes along, so that whatever changed meanwhile is shown before it is removed.
fn button(environment: &Environment, word: &str, force: bool, seen: Option<&Fingerprint>) -> Markup {
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
struct Wish {
    #[serde(default)]
    force: bool,
    seen: Option<Fingerprint>,
}

/// Does it, and gives the line that tells so.
async fn remove(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    query: Result<Query<Wish>, QueryRejection>,
) -> Result<Markup, Fault> {
    let Query(Wish { force, seen }) = query.map_err(|rejection| bad_query(&rejection))?;
    let (codebase, environment) = found(&app, &id).await?;
    let wish = RemovalWish { force, seen, ..RemovalWish::default() };
    let removed = app.talks.isolation.remove(&codebase, &environment, &wish).await?;
    app.talks.tell_watchers(TalkEvent::Worktrees);
    let days = app.talks.settings.trash_keep_days();
    let branch = environment.branch.as_str();
    Ok(match &removed {
        Removed::Gone => note(&format!("`{branch}` is forgotten."), &html! {}),
        Removed::Released(_) => note(&format!("`{branch}` is released; its folder stays."), &html! {}),
        Removed::Trashed { fate, branch_kept, regenerable, .. } => {
            let kept = if *branch_kept { format!(" {}", branch_words(branch, fate)) } else { String::new() };
            let folders = folders_kept(regenerable).map(|words| format!(" {words}")).unwrap_or_default();
            note(
                &format!("Removed `{branch}`.{kept} It is kept for {days} days.{folders}"),
                &html! {
                    button type="button" id="undo" class="button small" hx-target="#status" hx-sync="this:drop"
                        hx-post={ "/page/worktrees/" (environment.id) "/undo" } { "Undo" }
                },
            )
        }
    })
}

async fn undo(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Markup, Fault> {
    let (codebase, environment) = found(&app, &id).await?;
    let Restored { environment, gone } = app.talks.isolation.undo(&codebase, &environment).await?;
    app.talks.tell_watchers(TalkEvent::Worktrees);
    let words = match folders_gone(&gone) {
        None => format!("`{}` is back as it was.", environment.branch),
        Some(gone) => format!("`{}` is back. {gone}", environment.branch),
    };
    Ok(note(&words, &html! {}))
}

fn note(words: &str, more: &Markup) -> Markup {
    html! {
        span { (text::sentence(words)) }
        (more)
        button type="button" class="button small quiet" data-dismiss { "Close" }
    }
}
