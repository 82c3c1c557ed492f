//! The list of environments.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use grove_environments::inspect::list::EnvironmentView;
use grove_environments::words::state::describe_changes;
use grove_model::{Moment, State as Condition, human_size};
use maud::{Markup, html};

use super::super::ServerState;
use super::super::fault::HttpError;
use super::time;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/page/worktrees", get(list_worktrees))
}

async fn list_worktrees(State(app): State<Arc<ServerState>>) -> Result<Markup, HttpError> {
    let codebases = app.conversations.store.list_codebases().await?;
    let mut views = Vec::new();
    for codebase in &codebases {
        views.extend(app.conversations.environments.environment_views(codebase, false).await?);
    }
    // The most recently active environments come first.
    views.sort_by_key(|view| std::cmp::Reverse(view.last_activity_at));
    let several = codebases.len() > 1;
    Ok(html! {
        @if views.is_empty() {
            p class="dim" { "None yet. The first message of a conversation makes one." }
        } @else {
            ul class="cards" { @for view in &views { (render_card(view, several)) } }
        }
    })
}

fn render_card(view: &EnvironmentView, several: bool) -> Markup {
    html! {
        li class="card" data-id=(view.id) data-branch=(view.branch) {
            div class="card-head" {
                (render_state(view))
                @if let Some(title) = &view.title { p class="title" { (title) } }
                h3 title=(view.path.display()) { (view.branch) }
            }
            dl {
                @if several { (render_field("codebase", &html! { (view.codebase) })) }
                (render_field("work", &html! { (work_label(view)) }))
                @if let Some(base) = &view.base { (render_field("base", &html! { (base) (render_base_distance(view)) })) }
                @let changes = view.error.clone().unwrap_or_else(|| describe_changes(view));
                @if !changes.is_empty() { (render_field("changes", &html! { (changes) })) }
                @if let Some(size) = view.size_bytes.and_then(|bytes| u64::try_from(bytes).ok()) {
                    (render_field("size", &html! { (human_size(size)) }))
                }
                (render_field("active", &time::render_ago(view.last_activity_at)))
            }
            div class="choice" {
                @if view.path.is_dir() {
                    button type="button" class="button small quiet" id={ "diff-" (view.id) }
                        data-dialog={ "/page/worktrees/" (view.id) "/diff" } aria-haspopup="dialog"
                        aria-label={ "Changes in " (view.branch) } { "Changes" }
                }
                button type="button" class="button small" id={ "remove-" (view.id) }
                    data-dialog={ "/page/worktrees/" (view.id) "/plan" } aria-haspopup="dialog"
                    aria-label={ "Remove " (view.branch) "…" } { "Remove…" }
            }
        }
    }
}

fn render_field(name: &str, value: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

/// Renders a colour and the word; for a merged one also the evidence.
fn render_state(view: &EnvironmentView) -> Markup {
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

fn work_label(view: &EnvironmentView) -> String {
    match view.workflow_type.as_str() {
        kind @ ("issue" | "pr" | "review") => format!("{kind} #{}", view.workflow_id),
        kind => format!("{kind} {}", view.workflow_id),
    }
}

/// Renders for example ` +2 −1, 3 days old`: two commits ahead of its base, one behind; the work began from a
/// commit of three days ago.
fn render_base_distance(view: &EnvironmentView) -> Markup {
    let count = |count: Option<u64>| count.filter(|count| *count > 0);
    html! {
        @if let Some(ahead) = count(view.ahead) { " " span class="ahead" title="commits ahead" { "+" (ahead) } }
        @if let Some(behind) = count(view.behind) { " " span class="behind" title="commits behind" { "−" (behind) } }
        @if let Some(at) = view.base_at { ", " (Moment::now().age_since(at)) " old" }
    }
}
