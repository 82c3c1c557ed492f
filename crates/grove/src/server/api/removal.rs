//! Removing a worktree, putting it away, and bringing it back.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use grove_conversations::conversations::ConversationEvent;
use grove_environments::inspect::list::EnvironmentView;
use grove_environments::problem::Problem;
use grove_environments::remove::{HibernatedEnvironment, RemovalRequester, RemoveOptions, RestoredEnvironment};
use grove_model::{BranchName, Codebase, Environment};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::super::ServerState;
use super::super::fault::HttpError;
use super::super::openapi::WorktreeErrors;
use super::super::query::QueryParams;
use super::worktrees::{WorktreePath, resolve_environment, view_of};
use crate::api_json::{
    ErrorJson, FinishedJson, HibernatedWorktreeJson, RemovalPlanJson, RemovedJson, RestoredWorktreeJson,
};
use crate::words;

pub fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::default()
        .routes(routes!(remove_worktree))
        .routes(routes!(show_removal_plan))
        .routes(routes!(undo_removal))
        .routes(routes!(hibernate_worktree))
        .routes(routes!(wake_worktree))
        .routes(routes!(finish_worktree))
        .routes(routes!(abort_worktree))
}

type SharedState = State<Arc<ServerState>>;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ForceQuery {
    /// Remove it also against the reasons.
    #[serde(default)]
    force: bool,
}

/// Removes a worktree; undo brings it back.
#[utoipa::path(
    delete,
    path = "/api/worktrees/{id}",
    tag = "worktrees",
    params(WorktreePath, ForceQuery),
    responses(
        (status = 200, description = "What became of it.", body = RemovedJson),
        (status = 400, description = "The query cannot be read.", body = ErrorJson),
        WorktreeErrors,
    ),
)]
async fn remove_worktree(
    State(app): SharedState,
    Path(WorktreePath { id }): Path<WorktreePath>,
    QueryParams(ForceQuery { force }): QueryParams<ForceQuery>,
) -> Result<Json<RemovedJson>, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let wish = RemoveOptions { force, ..RemoveOptions::default() };
    let removed = app.conversations.environments.remove_environment(&codebase, &environment, &wish).await?;
    app.conversations.tell_watchers(ConversationEvent::Worktrees);
    Ok(Json(RemovedJson::from(&removed)))
}

/// Shows the effects of a removal, and the reasons against it.
#[utoipa::path(
    get,
    path = "/api/worktrees/{id}/plan",
    tag = "worktrees",
    params(WorktreePath, ForceQuery),
    responses(
        (status = 200, description = "The plan.", body = RemovalPlanJson),
        (status = 400, description = "The query cannot be read.", body = ErrorJson),
        WorktreeErrors,
    ),
)]
async fn show_removal_plan(
    State(app): SharedState,
    Path(WorktreePath { id }): Path<WorktreePath>,
    QueryParams(ForceQuery { force }): QueryParams<ForceQuery>,
) -> Result<Json<RemovalPlanJson>, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let plan = app.conversations.environments.plan_removal(&codebase, &environment, &RemovalRequester::Person).await?;
    Ok(Json(RemovalPlanJson::new(&environment, &plan, force)))
}

/// Brings a removed worktree back.
#[utoipa::path(
    post,
    path = "/api/worktrees/{id}/undo",
    tag = "worktrees",
    params(WorktreePath),
    responses((status = 200, description = "The worktree.", body = RestoredWorktreeJson), WorktreeErrors),
)]
async fn undo_removal(
    State(app): SharedState,
    Path(WorktreePath { id }): Path<WorktreePath>,
) -> Result<Json<RestoredWorktreeJson>, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let RestoredEnvironment { environment, gone } =
        app.conversations.environments.undo_removal(&codebase, &environment).await?;
    Ok(Json(RestoredWorktreeJson::new(view_of_changed(&app, &codebase, environment).await?, &gone)))
}

/// Puts a worktree away until it is needed.
#[utoipa::path(
    post,
    path = "/api/worktrees/{id}/hibernate",
    tag = "worktrees",
    params(WorktreePath),
    responses((status = 200, description = "The worktree.", body = HibernatedWorktreeJson), WorktreeErrors),
)]
async fn hibernate_worktree(
    State(app): SharedState,
    Path(WorktreePath { id }): Path<WorktreePath>,
) -> Result<Json<HibernatedWorktreeJson>, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let HibernatedEnvironment { environment, regenerable } =
        app.conversations.environments.hibernate_environment(&codebase, &environment).await?;
    Ok(Json(HibernatedWorktreeJson::new(view_of_changed(&app, &codebase, environment).await?, &regenerable)))
}

/// Brings a hibernated worktree back.
#[utoipa::path(
    post,
    path = "/api/worktrees/{id}/wake",
    tag = "worktrees",
    params(WorktreePath),
    responses((status = 200, description = "The worktree.", body = RestoredWorktreeJson), WorktreeErrors),
)]
async fn wake_worktree(
    State(app): SharedState,
    Path(WorktreePath { id }): Path<WorktreePath>,
) -> Result<Json<RestoredWorktreeJson>, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let RestoredEnvironment { environment, gone } =
        app.conversations.environments.wake_environment(&codebase, &environment).await?;
    Ok(Json(RestoredWorktreeJson::new(view_of_changed(&app, &codebase, environment).await?, &gone)))
}

async fn view_of_changed(
    app: &ServerState,
    codebase: &Codebase,
    environment: Environment,
) -> Result<EnvironmentView, HttpError> {
    app.conversations.tell_watchers(ConversationEvent::Worktrees);
    view_of(app, codebase, environment).await
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct FinishQuery {
    /// `merge` or `squash`; without it, what `cleanup.finish_method` says.
    method: Option<String>,
    /// The branch to merge, where another one than the recorded one is checked out.
    branch: Option<String>,
}

/// Merges the work into its base and removes the worktree.
#[utoipa::path(
    post,
    path = "/api/worktrees/{id}/finish",
    tag = "worktrees",
    params(WorktreePath, FinishQuery),
    responses(
        (status = 200, description = "The merge, and what became of the worktree.", body = FinishedJson),
        (status = 400, description = "The query cannot be read.", body = ErrorJson),
        WorktreeErrors,
    ),
)]
async fn finish_worktree(
    State(app): SharedState,
    Path(WorktreePath { id }): Path<WorktreePath>,
    QueryParams(how): QueryParams<FinishQuery>,
) -> Result<Json<FinishedJson>, HttpError> {
    let method = how.method.as_deref().map(str::parse).transpose()?;
    let method = method.unwrap_or(app.conversations.settings.current().finish_method());
    let branch = how.branch.as_deref().map(BranchName::parse).transpose();
    let branch = branch.map_err(|error| words::bad_finish_branch(&error))?;
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let environments = &app.conversations.environments;
    let (finished, removed) = environments
        .finish_environment(&codebase, &environment, method, branch.as_ref(), RemovalRequester::Person)
        .await?;
    app.conversations.tell_watchers(ConversationEvent::Worktrees);
    Ok(Json(FinishedJson::new(finished, removed.map_err(Problem::from))))
}

/// Gives the work up: the worktree goes with its branch, and undo brings both back.
#[utoipa::path(
    post,
    path = "/api/worktrees/{id}/abort",
    tag = "worktrees",
    params(WorktreePath),
    responses((status = 200, description = "What became of it.", body = RemovedJson), WorktreeErrors),
)]
async fn abort_worktree(
    State(app): SharedState,
    Path(WorktreePath { id }): Path<WorktreePath>,
) -> Result<Json<RemovedJson>, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let removed = app.conversations.environments.abort_environment(&codebase, &environment).await?;
    app.conversations.tell_watchers(ConversationEvent::Worktrees);
    Ok(Json(RemovedJson::from(&removed)))
}
