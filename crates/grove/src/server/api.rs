//! The JSON API.

pub mod conversations;
pub mod worktrees;

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use grove_environments::problem::Problem;
use grove_model::{Event, Incoming};
use serde_json::Value;

use super::App;
use super::fault::Fault;

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/codebases", get(codebases))
        .route("/api/status", get(status))
        .route("/api/openapi.json", get(async || ([("content-type", "application/json")], OPENAPI)))
        .merge(worktrees::routes())
        .merge(conversations::routes())
}

const OPENAPI: &str = include_str!("openapi.json");

async fn codebases(State(app): State<Arc<App>>) -> Result<Json<Value>, Fault> {
    let codebases = app.talks.store.codebases().await?;
    Ok(Json(codebases.iter().map(crate::api_json::codebase_json).collect()))
}

async fn status(State(app): State<Arc<App>>) -> Result<Json<Value>, Fault> {
    Ok(Json(crate::api_json::status_json(&app.talks.store, &app.talks.isolation).await?))
}

/// What came in must be something that can be answered.
pub fn check(incoming: &Incoming) -> Result<(), Problem> {
    let bad = |message: &str| Err(Problem::new("bad_request", message, "See /api/openapi.json."));
    let named = |name: &str| !name.trim().is_empty() && name.len() <= 1000 && !name.contains('\0');
    let names =
        [Some(&incoming.conversation), incoming.parent.as_ref(), incoming.user.as_ref(), incoming.delivery.as_ref()];
    if !names.into_iter().flatten().all(|name| named(name)) {
        return bad("The ids of conversations, people and deliveries must be texts of at most 1000 bytes.");
    }
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if incoming.platform.is_empty() || incoming.platform.len() > 50 || !incoming.platform.chars().all(word) {
        return bad("A platform's name must be one plain word.");
    }
    match &incoming.event {
        Event::Message { text, .. } if text.trim().is_empty() => bad("The message is empty."),
        Event::Message { text, context, .. }
            if text.contains('\0') || context.as_deref().is_some_and(|c| c.contains('\0')) =>
        {
            bad("The message contains the character NUL.")
        }
        _ => Ok(()),
    }
}
