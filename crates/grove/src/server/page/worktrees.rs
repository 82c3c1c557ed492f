//! The environments.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use grove_environments::inspect::list::View;
use grove_model::{Moment, State as Condition, human_size};
use maud::{Markup, html};

use super::super::App;
use super::super::fault::Fault;
use super::time;

pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/page/worktrees", get(list))
}

async fn list(State(app): State<Arc<App>>) -> Result<Markup, Fault> {
    let codebases = app.talks.store.codebases().await?;
    let mut views = Vec::new();
    for codebase in &codebases {
        views.extend(app.talks.isolation.views(codebase, false).await?);
    }
    // Whoever looks wants to see what moves.
    views.sort_by_key(|view| std::cmp::Reverse(view.last_activity_at));
    let several = codebases.len() > 1;
    Ok(html! {
        @if views.is_empty() {
            p class="dim" { "None yet. The first message of a conversation makes one." }
        } @else {
            ul class="cards" { @for view in &views { (card(view, several)) } }
        }
    })
}

fn card(view: &View, several: bool) -> Markup {
    html! {
        li class="card" data-id=(view.id) data-branch=(view.branch) {
            div class="card-head" {
                (state(view))
                h3 title=(view.path.display()) { (view.branch) }
            }
            dl {
                @if several { (field("codebase", &html! { (view.codebase) })) }
                (field("work", &html! { (work(view)) }))
                @if let Some(base) = &view.base { (field("base", &html! { (base) (apart(view)) })) }
                @if let Some(changes) = changes(view) { (field("changes", &html! { (changes) })) }
                @if let Some(size) = view.size_bytes.and_then(|bytes| u64::try_from(bytes).ok()) {
                    (field("size", &html! { (human_size(size)) }))
                }
                (field("active", &time::ago(view.last_activity_at)))
            }
            button type="button" class="button small" id={ "remove-" (view.id) }
                data-plan={ "/page/worktrees/" (view.id) "/plan" } aria-haspopup="dialog"
                aria-label={ "Remove " (view.branch) "…" } { "Remove…" }
        }
    }
}

fn field(name: &str, value: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

/// A colour and the word; for a merged one also how that is known.
fn state(view: &View) -> Markup {
    let mood = match view.state {
        Condition::Failed | Condition::Broken | Condition::Missing => "bad",
        Condition::Dirty => "changed",
        Condition::Creating | Condition::Merging => "moving",
        Condition::Merged | Condition::Active => "good",
        Condition::Fresh => "new",
        Condition::Stale | Condition::Hibernated => "asleep",
    };
    let how = view.merged_by.filter(|_| view.state == Condition::Merged);
    html! {
        span class={ "state " (mood) } {
            (view.state.as_str())
            @if let Some(how) = how { " (" (how) ")" }
        }
    }
}

fn work(view: &View) -> String {
    match view.workflow_type.as_str() {
        kind @ ("issue" | "pr" | "review") => format!("{kind} #{}", view.workflow_id),
        kind => format!("{kind} {}", view.workflow_id),
    }
}

/// ` +2 −1, 3 days old`: two commits ahead of its base, one behind; the work began from a commit of
/// three days ago.
fn apart(view: &View) -> Markup {
    let count = |count: Option<u64>| count.filter(|count| *count > 0);
    html! {
        @if let Some(ahead) = count(view.ahead) { " " span class="ahead" title="commits ahead" { "+" (ahead) } }
        @if let Some(behind) = count(view.behind) { " " span class="behind" title="commits behind" { "−" (behind) } }
        @if let Some(at) = view.base_at { ", " (Moment::now().age_since(at)) " old" }
    }
}

fn changes(view: &View) -> Option<String> {
    match (&view.error, view.dirty, view.untracked) {
        (Some(error), ..) => Some(error.clone()),
        (None, false, _) => None,
        (None, true, 0) => Some("uncommitted".to_owned()),
        (None, true, 1) => Some("1 untracked file".to_owned()),
        (None, true, many) => Some(format!("{many} untracked files")),
    }
}
