//! The JSON API.

pub mod conversations;
mod removal;
pub mod worktrees;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use grove_environments::problem::Problem;
use grove_model::{IncomingEvent, IncomingPayload};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ServerState;
use super::fault::HttpError;
use super::openapi::{self, AccessErrors};
use crate::api_json::{CodebaseJson, StatusJson, load_status};
use crate::words;

pub fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::default()
        .routes(routes!(list_codebases))
        .routes(routes!(show_status))
        .routes(routes!(openapi::show_openapi))
        .merge(worktrees::routes())
        .merge(removal::routes())
        .merge(conversations::routes())
}

/// Lists the registered repositories.
#[utoipa::path(
    get,
    path = "/api/codebases",
    tag = "codebases",
    responses((status = 200, description = "All codebases.", body = Vec<CodebaseJson>), AccessErrors),
)]
async fn list_codebases(State(app): State<Arc<ServerState>>) -> Result<Json<Vec<CodebaseJson>>, HttpError> {
    let codebases = app.conversations.store.list_codebases().await?;
    Ok(Json(codebases.iter().map(CodebaseJson::from).collect()))
}

/// Counts worktrees and messages, and shows how the platforms are.
#[utoipa::path(
    get,
    path = "/api/status",
    tag = "server",
    responses((status = 200, description = "The state of the installation.", body = StatusJson), AccessErrors),
)]
async fn show_status(State(app): State<Arc<ServerState>>) -> Result<Json<StatusJson>, HttpError> {
    Ok(Json(load_status(&app.conversations.store, &app.conversations.environments).await?))
}

/// Checks that an incoming event can be answered.
pub fn check_incoming(incoming: &IncomingEvent) -> Result<(), Problem> {
    let named = |name: &str| !name.trim().is_empty() && name.len() <= 1000 && !name.contains('\0');
    let names =
        [Some(&incoming.conversation), incoming.parent.as_ref(), incoming.user.as_ref(), incoming.delivery.as_ref()];
    if !names.into_iter().flatten().all(|name| named(name)) {
        return Err(words::bad_ids());
    }
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if incoming.platform.is_empty() || incoming.platform.len() > 50 || !incoming.platform.chars().all(word) {
        return Err(words::bad_platform());
    }
    match &incoming.event {
        IncomingPayload::Message { text, .. } if text.trim().is_empty() => Err(words::empty_message()),
        IncomingPayload::Message { text, context, .. }
            if text.contains('\0') || context.as_deref().is_some_and(|c| c.contains('\0')) =>
        {
            Err(words::message_with_nul())
        }
        _ => Ok(()),
    }
}
