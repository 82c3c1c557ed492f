//! `/api/worktrees`

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use grove_conversations::conversations::TalkEvent;
use grove_environments::create::{self, CreatedBy, Hints, Wish};
use grove_environments::error;
use grove_environments::inspect::find::find;
use grove_environments::inspect::list::View;
use grove_environments::problem::Problem;
use grove_environments::remove::{Asker, Hibernated, RemovalWish, Restored, TrashedFolder};
use grove_model::{BranchName, Codebase, Environment, EnvironmentId, Kind, PrHead, Work};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::App;
use super::super::body::Body;
use super::super::fault::{Fault, bad_query};

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/worktrees", get(list).post(create))
        .route("/api/worktrees/{id}", get(show).delete(remove))
        .route("/api/worktrees/{id}/plan", get(plan))
        .route("/api/worktrees/{id}/undo", post(undo))
        .route("/api/worktrees/{id}/hibernate", post(hibernate))
        .route("/api/worktrees/{id}/wake", post(wake))
        .route("/api/worktrees/{id}/finish", post(finish))
        .route("/api/worktrees/{id}/abort", post(abort))
}

type Shared = State<Arc<App>>;

#[derive(Deserialize)]
struct Which {
    codebase: Option<String>,
    #[serde(default)]
    all: bool,
}

async fn list(State(app): Shared, query: Result<Query<Which>, QueryRejection>) -> Result<Json<Vec<View>>, Fault> {
    let Query(which) = query.map_err(|rejection| bad_query(&rejection))?;
    let codebases = match &which.codebase {
        Some(name) => vec![app.talks.codebases.named(name).await?],
        None => app.talks.store.codebases().await?,
    };
    let mut views = Vec::new();
    for codebase in &codebases {
        views.extend(app.talks.isolation.views(codebase, which.all).await?);
    }
    Ok(Json(views))
}

#[derive(Deserialize)]
struct Wanted {
    codebase: Option<String>,
    name: Option<String>,
    kind: Option<Kind>,
    id: Option<String>,
    from: Option<String>,
}

async fn create(State(app): Shared, Body(wanted): Body<Wanted>) -> Result<(StatusCode, Json<View>), Fault> {
    let codebase = app.talks.codebases.only_or_named(wanted.codebase.as_deref()).await?;
    let branch = wanted.name.as_deref().map(BranchName::parse).transpose()?;
    let work = match (wanted.kind, wanted.id.as_deref(), &branch) {
        (Some(kind), Some(id), branch) => {
            // A review's name is that of its own branch.
            let of_pull_request = branch.as_ref().filter(|_| kind == Kind::Pr);
            Work::of(kind, id, PrHead::known_by(of_pull_request, None, false))?
        }
        (None, None, Some(name)) => Work::task(name.as_str())?,
        _ => {
            let problem =
                Problem::new("bad_request", "It is not said which work it is for.", "Give `name`, or `kind` and `id`.");
            return Err(problem.into());
        }
    };
    let by = CreatedBy { platform: Some("web".to_owned()), user: None };
    let wish = Wish { work, branch, from: wanted.from, hints: Hints::default(), conversation: None, by };
    let isolation = &app.talks.isolation;
    let outcome = isolation.create(&codebase, &wish).await?;
    let view = match &outcome.how {
        create::How::Created(new) => isolation.view_of_new(&codebase, &outcome.environment, new.facts.clone()).await?,
        _ => view_of(&app, &codebase, outcome.environment).await?,
    };
    app.talks.tell_watchers(TalkEvent::Worktrees);
    Ok((StatusCode::CREATED, Json(view)))
}

/// The environment with this id; also one that was removed.
pub async fn found(app: &App, id: &str) -> Result<(Codebase, Environment), Fault> {
    let store = &app.talks.store;
    let environment = match id.parse::<EnvironmentId>() {
        Ok(id) => store.environment(id).await?,
        Err(_) => None,
    };
    let codebases = store.codebases().await?;
    if let Some(environment) = environment
        && let Some(codebase) = codebases.iter().find(|codebase| codebase.id == environment.codebase_id)
    {
        return Ok((codebase.clone(), environment));
    }
    // The start of an id, a branch or a work are good enough where only one fits.
    let mut fitting = Vec::new();
    for codebase in codebases {
        let all = store.environments(codebase.id, false).await?;
        match find(id, &all) {
            Ok(environment) => fitting.push((codebase, environment.clone())),
            Err(error::IsolationError::NoSuch(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match fitting.len() {
        0 => Err(error::IsolationError::NoSuch(id.to_owned()).into()),
        1 => Ok(fitting.remove(0)),
        _ => {
            let candidates =
                fitting.iter().map(|(codebase, e)| format!("{} ({} in {})", e.id, e.branch, codebase.name));
            let candidates = candidates.collect();
            Err(error::IsolationError::Ambiguous { name: id.to_owned(), candidates }.into())
        }
    }
}

async fn view_of(app: &App, codebase: &Codebase, environment: Environment) -> Result<View, Fault> {
    let mut views = app.talks.isolation.views_of(codebase, vec![environment]).await?;
    Ok(views.pop().ok_or_else(|| Problem::new("not_found", "The environment is gone.", "Try again."))?)
}

async fn show(State(app): Shared, Path(id): Path<String>) -> Result<Json<View>, Fault> {
    let (codebase, environment) = found(&app, &id).await?;
    Ok(Json(view_of(&app, &codebase, environment).await?))
}

#[derive(Deserialize)]
struct Force {
    #[serde(default)]
    force: bool,
}

async fn remove(
    State(app): Shared,
    Path(id): Path<String>,
    query: Result<Query<Force>, QueryRejection>,
) -> Result<Json<Value>, Fault> {
    let Query(Force { force }) = query.map_err(|rejection| bad_query(&rejection))?;
    let (codebase, environment) = found(&app, &id).await?;
    let wish = RemovalWish { force, ..RemovalWish::default() };
    let removed = app.talks.isolation.remove(&codebase, &environment, &wish).await?;
    app.talks.tell_watchers(TalkEvent::Worktrees);
    Ok(Json(crate::api_json::removed_json(&removed)))
}

/// What a removal would do, and what speaks against it.
async fn plan(
    State(app): Shared,
    Path(id): Path<String>,
    query: Result<Query<Force>, QueryRejection>,
) -> Result<Json<Value>, Fault> {
    let Query(Force { force }) = query.map_err(|rejection| bad_query(&rejection))?;
    let (codebase, environment) = found(&app, &id).await?;
    let plan = app.talks.isolation.plan_removal(&codebase, &environment, &Asker::Person).await?;
    Ok(Json(crate::api_json::plan_json(&environment, &plan, force)))
}

async fn undo(State(app): Shared, Path(id): Path<String>) -> Result<Json<Value>, Fault> {
    let (codebase, environment) = found(&app, &id).await?;
    let Restored { environment, gone } = app.talks.isolation.undo(&codebase, &environment).await?;
    changed(&app, &codebase, environment, "regenerable_gone", &gone).await
}

async fn hibernate(State(app): Shared, Path(id): Path<String>) -> Result<Json<Value>, Fault> {
    let (codebase, environment) = found(&app, &id).await?;
    let Hibernated { environment, regenerable } = app.talks.isolation.hibernate(&codebase, &environment).await?;
    changed(&app, &codebase, environment, "regenerable", &regenerable).await
}

async fn wake(State(app): Shared, Path(id): Path<String>) -> Result<Json<Value>, Fault> {
    let (codebase, environment) = found(&app, &id).await?;
    let Restored { environment, gone } = app.talks.isolation.wake(&codebase, &environment).await?;
    changed(&app, &codebase, environment, "regenerable_gone", &gone).await
}

async fn changed(
    app: &App,
    codebase: &Codebase,
    environment: Environment,
    key: &str,
    folders: &[TrashedFolder],
) -> Result<Json<Value>, Fault> {
    app.talks.tell_watchers(TalkEvent::Worktrees);
    let view = view_of(app, codebase, environment).await?;
    Ok(Json(crate::api_json::with_folders(&view, key, folders)?))
}

#[derive(Default, Deserialize)]
struct How {
    method: Option<String>,
    branch: Option<String>,
}

async fn finish(
    State(app): Shared,
    Path(id): Path<String>,
    query: Result<Query<How>, QueryRejection>,
) -> Result<Json<Value>, Fault> {
    let Query(how) = query.map_err(|rejection| bad_query(&rejection))?;
    let method = how.method.as_deref().map(str::parse).transpose()?;
    let method = method.unwrap_or(app.talks.settings.finish_method());
    let branch = how.branch.as_deref().map(BranchName::parse).transpose();
    let branch = branch.map_err(|error| Problem::new("usage", format!("{error}."), "Name a branch in `branch`."))?;
    let (codebase, environment) = found(&app, &id).await?;
    let isolation = &app.talks.isolation;
    let (finished, removed) = isolation.finish(&codebase, &environment, method, branch.as_ref(), Asker::Person).await?;
    app.talks.tell_watchers(TalkEvent::Worktrees);
    // Merged is merged, also if the worktree has to stay.
    let mut answer = match removed {
        Ok(removed) => crate::api_json::removed_json(&removed),
        Err(error) => json!({ "removed": false, "branch_kept": true, "error": Problem::from(error) }),
    };
    answer["merged_into"] = json!(finished.base.to_string());
    answer["commit"] = json!(finished.commit);
    answer["updated_checkouts"] = json!(finished.updated);
    Ok(Json(answer))
}

async fn abort(State(app): Shared, Path(id): Path<String>) -> Result<Json<Value>, Fault> {
    let (codebase, environment) = found(&app, &id).await?;
    let removed = app.talks.isolation.abort(&codebase, &environment).await?;
    app.talks.tell_watchers(TalkEvent::Worktrees);
    Ok(Json(crate::api_json::removed_json(&removed)))
}
