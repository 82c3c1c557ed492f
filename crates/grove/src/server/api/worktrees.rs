//! `/api/worktrees`

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use grove_conversations::conversations::ConversationEvent;
use grove_environments::create::{self, CreateHints, CreateRequest, EnvironmentCreator};
use grove_environments::error;
use grove_environments::inspect::find::find_by_name;
use grove_environments::inspect::list::EnvironmentView;
use grove_environments::problem::Problem;
use grove_environments::remove::{
    HibernatedEnvironment, RemovalRequester, RemoveOptions, RestoredEnvironment, TrashedFolder,
};
use grove_model::{BranchName, Codebase, Environment, EnvironmentId, PullRequestHead, Work, WorkKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::ServerState;
use super::super::body::JsonBody;
use super::super::fault::{HttpError, bad_query};

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new()
        .route("/api/worktrees", get(list_worktrees).post(create_worktree))
        .route("/api/worktrees/{id}", get(show_worktree).delete(remove_worktree))
        .route("/api/worktrees/{id}/plan", get(show_removal_plan))
        .route("/api/worktrees/{id}/undo", post(undo_removal))
        .route("/api/worktrees/{id}/hibernate", post(hibernate_worktree))
        .route("/api/worktrees/{id}/wake", post(wake_worktree))
        .route("/api/worktrees/{id}/finish", post(finish_worktree))
        .route("/api/worktrees/{id}/abort", post(abort_worktree))
}

type SharedState = State<Arc<ServerState>>;

#[derive(Deserialize)]
struct ListWorktreesQuery {
    codebase: Option<String>,
    #[serde(default)]
    all: bool,
}

async fn list_worktrees(
    State(app): SharedState,
    query: Result<Query<ListWorktreesQuery>, QueryRejection>,
) -> Result<Json<Vec<EnvironmentView>>, HttpError> {
    let Query(which) = query.map_err(|rejection| bad_query(&rejection))?;
    let codebases = match &which.codebase {
        Some(name) => vec![app.conversations.codebases.find_codebase(name).await?],
        None => app.conversations.store.list_codebases().await?,
    };
    let mut views = Vec::new();
    for codebase in &codebases {
        views.extend(app.conversations.environments.environment_views(codebase, which.all).await?);
    }
    Ok(Json(views))
}

#[derive(Deserialize)]
struct CreateWorktreeBody {
    codebase: Option<String>,
    name: Option<String>,
    kind: Option<WorkKind>,
    id: Option<String>,
    from: Option<String>,
}

async fn create_worktree(
    State(app): SharedState,
    JsonBody(wanted): JsonBody<CreateWorktreeBody>,
) -> Result<(StatusCode, Json<EnvironmentView>), HttpError> {
    let codebase = app.conversations.codebases.only_or_named(wanted.codebase.as_deref()).await?;
    let branch = wanted.name.as_deref().map(BranchName::parse).transpose()?;
    let work = match (wanted.kind, wanted.id.as_deref(), &branch) {
        (Some(kind), Some(id), branch) => {
            // The name of a review is the name of its own branch.
            let of_pull_request = branch.as_ref().filter(|_| kind == WorkKind::Pr);
            Work::from_kind(kind, id, PullRequestHead::known_by(of_pull_request, None, false))?
        }
        (None, None, Some(name)) => Work::for_task(name.as_str())?,
        _ => {
            let problem =
                Problem::new("bad_request", "It is not said which work it is for.", "Give `name`, or `kind` and `id`.");
            return Err(problem.into());
        }
    };
    let by = EnvironmentCreator { platform: Some("web".to_owned()), user: None };
    let wish = CreateRequest { work, branch, from: wanted.from, hints: CreateHints::default(), conversation: None, by };
    let environments = &app.conversations.environments;
    let outcome = environments.create_environment(&codebase, &wish).await?;
    let view = match &outcome.how {
        create::CreateMethod::Created(new) => {
            environments.view_of_new(&codebase, &outcome.environment, new.facts.clone()).await?
        }
        _ => view_of(&app, &codebase, outcome.environment).await?,
    };
    app.conversations.tell_watchers(ConversationEvent::Worktrees);
    Ok((StatusCode::CREATED, Json(view)))
}

/// Returns the environment with this id, also a removed one.
pub async fn resolve_environment(app: &ServerState, id: &str) -> Result<(Codebase, Environment), HttpError> {
    let store = &app.conversations.store;
    let environment = match id.parse::<EnvironmentId>() {
        Ok(id) => store.find_environment(id).await?,
        Err(_) => None,
    };
    let codebases = store.list_codebases().await?;
    if let Some(environment) = environment
        && let Some(codebase) = codebases.iter().find(|codebase| codebase.id == environment.codebase_id)
    {
        return Ok((codebase.clone(), environment));
    }
    // The start of an id, a branch or a work is enough if only one environment matches.
    let mut fitting = Vec::new();
    for codebase in codebases {
        let all = store.list_environments(codebase.id, false).await?;
        match find_by_name(id, &all) {
            Ok(environment) => fitting.push((codebase, environment.clone())),
            Err(error::EnvironmentError::NoSuch(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match fitting.len() {
        0 => Err(error::EnvironmentError::NoSuch(id.to_owned()).into()),
        1 => Ok(fitting.remove(0)),
        _ => {
            let candidates =
                fitting.iter().map(|(codebase, e)| format!("{} ({} in {})", e.id, e.branch, codebase.name));
            let candidates = candidates.collect();
            Err(error::EnvironmentError::Ambiguous { name: id.to_owned(), candidates }.into())
        }
    }
}

async fn view_of(
    app: &ServerState,
    codebase: &Codebase,
    environment: Environment,
) -> Result<EnvironmentView, HttpError> {
    let mut views = app.conversations.environments.views_of(codebase, vec![environment]).await?;
    Ok(views.pop().ok_or_else(|| Problem::new("not_found", "The environment is gone.", "Try again."))?)
}

async fn show_worktree(State(app): SharedState, Path(id): Path<String>) -> Result<Json<EnvironmentView>, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    Ok(Json(view_of(&app, &codebase, environment).await?))
}

#[derive(Deserialize)]
struct ForceQuery {
    #[serde(default)]
    force: bool,
}

async fn remove_worktree(
    State(app): SharedState,
    Path(id): Path<String>,
    query: Result<Query<ForceQuery>, QueryRejection>,
) -> Result<Json<Value>, HttpError> {
    let Query(ForceQuery { force }) = query.map_err(|rejection| bad_query(&rejection))?;
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let wish = RemoveOptions { force, ..RemoveOptions::default() };
    let removed = app.conversations.environments.remove_environment(&codebase, &environment, &wish).await?;
    app.conversations.tell_watchers(ConversationEvent::Worktrees);
    Ok(Json(crate::api_json::removed_json(&removed)))
}

/// Shows the effects of a removal, and the reasons against it.
async fn show_removal_plan(
    State(app): SharedState,
    Path(id): Path<String>,
    query: Result<Query<ForceQuery>, QueryRejection>,
) -> Result<Json<Value>, HttpError> {
    let Query(ForceQuery { force }) = query.map_err(|rejection| bad_query(&rejection))?;
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let plan = app.conversations.environments.plan_removal(&codebase, &environment, &RemovalRequester::Person).await?;
    Ok(Json(crate::api_json::plan_json(&environment, &plan, force)))
}

async fn undo_removal(State(app): SharedState, Path(id): Path<String>) -> Result<Json<Value>, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let RestoredEnvironment { environment, gone } =
        app.conversations.environments.undo_removal(&codebase, &environment).await?;
    respond_with_change(&app, &codebase, environment, "regenerable_gone", &gone).await
}

async fn hibernate_worktree(State(app): SharedState, Path(id): Path<String>) -> Result<Json<Value>, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let HibernatedEnvironment { environment, regenerable } =
        app.conversations.environments.hibernate_environment(&codebase, &environment).await?;
    respond_with_change(&app, &codebase, environment, "regenerable", &regenerable).await
}

async fn wake_worktree(State(app): SharedState, Path(id): Path<String>) -> Result<Json<Value>, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let RestoredEnvironment { environment, gone } =
        app.conversations.environments.wake_environment(&codebase, &environment).await?;
    respond_with_change(&app, &codebase, environment, "regenerable_gone", &gone).await
}

async fn respond_with_change(
    app: &ServerState,
    codebase: &Codebase,
    environment: Environment,
    key: &str,
    folders: &[TrashedFolder],
) -> Result<Json<Value>, HttpError> {
    app.conversations.tell_watchers(ConversationEvent::Worktrees);
    let view = view_of(app, codebase, environment).await?;
    Ok(Json(crate::api_json::with_folders(&view, key, folders)?))
}

#[derive(Default, Deserialize)]
struct FinishQuery {
    method: Option<String>,
    branch: Option<String>,
}

async fn finish_worktree(
    State(app): SharedState,
    Path(id): Path<String>,
    query: Result<Query<FinishQuery>, QueryRejection>,
) -> Result<Json<Value>, HttpError> {
    let Query(how) = query.map_err(|rejection| bad_query(&rejection))?;
    let method = how.method.as_deref().map(str::parse).transpose()?;
    let method = method.unwrap_or(app.conversations.settings.finish_method());
    let branch = how.branch.as_deref().map(BranchName::parse).transpose();
    let branch = branch.map_err(|error| Problem::new("usage", format!("{error}."), "Name a branch in `branch`."))?;
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let environments = &app.conversations.environments;
    let (finished, removed) = environments
        .finish_environment(&codebase, &environment, method, branch.as_ref(), RemovalRequester::Person)
        .await?;
    app.conversations.tell_watchers(ConversationEvent::Worktrees);
    // A merge counts, also if the worktree has to stay.
    let mut answer = match removed {
        Ok(removed) => crate::api_json::removed_json(&removed),
        Err(error) => json!({ "removed": false, "branch_kept": true, "error": Problem::from(error) }),
    };
    answer["merged_into"] = json!(finished.base.to_string());
    answer["commit"] = json!(finished.commit);
    answer["updated_checkouts"] = json!(finished.updated);
    Ok(Json(answer))
}

async fn abort_worktree(State(app): SharedState, Path(id): Path<String>) -> Result<Json<Value>, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let removed = app.conversations.environments.abort_environment(&codebase, &environment).await?;
    app.conversations.tell_watchers(ConversationEvent::Worktrees);
    Ok(Json(crate::api_json::removed_json(&removed)))
}
