//! The JSON API.

pub mod conversations;
pub mod worktrees;

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use grove_environments::problem::Problem;
use grove_model::{IncomingEvent, IncomingPayload};
use serde_json::Value;

use super::ServerState;
use super::fault::HttpError;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new()
        .route("/api/codebases", get(list_codebases))
        .route("/api/status", get(show_status))
        .route("/api/openapi.json", get(async || ([("content-type", "application/json")], OPENAPI_JSON)))
        .merge(worktrees::routes())
        .merge(conversations::routes())
}

const OPENAPI_JSON: &str = include_str!("openapi.json");

async fn list_codebases(State(app): State<Arc<ServerState>>) -> Result<Json<Value>, HttpError> {
    let codebases = app.conversations.store.list_codebases().await?;
    Ok(Json(codebases.iter().map(crate::api_json::codebase_json).collect()))
}

async fn show_status(State(app): State<Arc<ServerState>>) -> Result<Json<Value>, HttpError> {
    Ok(Json(crate::api_json::status_json(&app.conversations.store, &app.conversations.environments).await?))
}

/// Checks that an incoming event can be answered.
pub fn check_incoming(incoming: &IncomingEvent) -> Result<(), Problem> {
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
        IncomingPayload::Message { text, .. } if text.trim().is_empty() => bad("The message is empty."),
        IncomingPayload::Message { text, context, .. }
            if text.contains('\0') || context.as_deref().is_some_and(|c| c.contains('\0')) =>
        {
            bad("The message contains the character NUL.")
        }
        _ => Ok(()),
    }
}
