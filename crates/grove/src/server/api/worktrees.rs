//! `/api/worktrees`

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use grove_conversations::conversations::ConversationEvent;
use grove_environments::create::{self, CreateHints, CreateRequest, EnvironmentCreator};
use grove_environments::error;
use grove_environments::inspect::find::find_by_name;
use grove_environments::inspect::list::EnvironmentView;
use grove_model::{BranchName, Codebase, Environment, EnvironmentId, PullRequestHead, Work, WorkKind};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::super::ServerState;
use super::super::body::JsonBody;
use super::super::fault::HttpError;
use super::super::openapi::{AccessErrors, BodyErrors, WorktreeErrors};
use super::super::query::QueryParams;
use super::super::trace::record_environment;
use crate::api_json::{ErrorJson, WorktreeJson, work_kinds};
use crate::words;

pub fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::default().routes(routes!(list_worktrees, create_worktree)).routes(routes!(show_worktree))
}

/// The worktree that a path names.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct WorktreePath {
    /// An id, a branch or a work such as issue-42.
    pub id: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListWorktreesQuery {
    /// Only those of this codebase.
    codebase: Option<String>,
    /// Also those that were removed.
    #[serde(default)]
    all: bool,
}

/// Lists the worktrees.
#[utoipa::path(
    get,
    path = "/api/worktrees",
    tag = "worktrees",
    params(ListWorktreesQuery),
    responses(
        (status = 200, description = "The worktrees of all codebases, or of one.", body = Vec<WorktreeJson>),
        (status = 400, description = "The query cannot be read.", body = ErrorJson),
        (status = 404, description = "No codebase has this name.", body = ErrorJson),
        AccessErrors,
    ),
)]
async fn list_worktrees(
    State(app): State<Arc<ServerState>>,
    QueryParams(which): QueryParams<ListWorktreesQuery>,
) -> Result<Json<Vec<WorktreeJson>>, HttpError> {
    let codebases = match &which.codebase {
        Some(name) => vec![app.conversations.codebases.find_codebase(name).await?],
        None => app.conversations.store.list_codebases().await?,
    };
    let mut views = Vec::new();
    for codebase in &codebases {
        views.extend(app.conversations.environments.environment_views(codebase, which.all).await?);
    }
    Ok(Json(views.into_iter().map(WorktreeJson::from).collect()))
}

/// The work that a worktree is requested for: `name`, or `kind` and `id`.
#[derive(Deserialize, ToSchema)]
struct CreateWorktreeBody {
    /// The name of the codebase; needed only if there are several.
    codebase: Option<String>,
    /// The branch, and the name of the task unless `kind` and `id` are given.
    name: Option<String>,
    /// The kind of the work.
    #[schema(schema_with = work_kinds, required = false)]
    kind: Option<WorkKind>,
    /// The number of the issue or pull request, or the text of the thread or task.
    id: Option<String>,
    /// The branch, tag or commit to start from.
    from: Option<String>,
}

/// Creates a worktree for a piece of work, or finds the one that it has.
#[utoipa::path(
    post,
    path = "/api/worktrees",
    tag = "worktrees",
    request_body = CreateWorktreeBody,
    responses(
        (status = 201, description = "The worktree of the work.", body = WorktreeJson),
        (status = 404, description = "No codebase has this name.", body = ErrorJson),
        (status = 409, description = "It was not created, and why.", body = ErrorJson),
        (status = 507, description = "The disk is full.", body = ErrorJson),
        BodyErrors,
        AccessErrors,
    ),
)]
async fn create_worktree(
    State(app): State<Arc<ServerState>>,
    JsonBody(wanted): JsonBody<CreateWorktreeBody>,
) -> Result<(StatusCode, Json<WorktreeJson>), HttpError> {
    let codebase = app.conversations.codebases.only_or_named(wanted.codebase.as_deref()).await?;
    let branch = wanted.name.as_deref().map(BranchName::parse).transpose()?;
    let work = match (wanted.kind, wanted.id.as_deref(), &branch) {
        (Some(kind), Some(id), branch) => {
            // The name of a review is the name of its own branch.
            let of_pull_request = branch.as_ref().filter(|_| kind == WorkKind::Pr);
            Work::from_kind(kind, id, PullRequestHead::known_by(of_pull_request, None, false))?
        }
        (None, None, Some(name)) => Work::for_task(name.as_str())?,
        _ => return Err(words::no_work_named().into()),
    };
    let by = EnvironmentCreator { platform: Some("web".to_owned()), user: None };
    let wish = CreateRequest { work, branch, from: wanted.from, hints: CreateHints::default(), conversation: None, by };
    let environments = &app.conversations.environments;
    let outcome = environments.create_environment(&codebase, &wish).await?;
    record_environment(outcome.environment.id);
    let view = match &outcome.how {
        create::CreateMethod::Created(new) => {
            environments.view_of_new(&codebase, &outcome.environment, new.facts.clone()).await?
        }
        _ => view_of(&app, &codebase, outcome.environment).await?,
    };
    app.conversations.tell_watchers(ConversationEvent::Worktrees);
    Ok((StatusCode::CREATED, Json(view.into())))
}

/// Returns the environment with this id, also a removed one.
pub async fn resolve_environment(app: &ServerState, id: &str) -> Result<(Codebase, Environment), HttpError> {
    let (codebase, environment) = find_environment(app, id).await?;
    record_environment(environment.id);
    Ok((codebase, environment))
}

async fn find_environment(app: &ServerState, id: &str) -> Result<(Codebase, Environment), HttpError> {
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

pub(super) async fn view_of(
    app: &ServerState,
    codebase: &Codebase,
    environment: Environment,
) -> Result<EnvironmentView, HttpError> {
    let mut views = app.conversations.environments.views_of(codebase, vec![environment]).await?;
    Ok(views.pop().ok_or_else(words::environment_gone)?)
}

/// Shows a worktree.
#[utoipa::path(
    get,
    path = "/api/worktrees/{id}",
    tag = "worktrees",
    params(WorktreePath),
    responses((status = 200, description = "The worktree.", body = WorktreeJson), WorktreeErrors),
)]
async fn show_worktree(
    State(app): State<Arc<ServerState>>,
    Path(WorktreePath { id }): Path<WorktreePath>,
) -> Result<Json<WorktreeJson>, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    Ok(Json(view_of(&app, &codebase, environment).await?.into()))
}
