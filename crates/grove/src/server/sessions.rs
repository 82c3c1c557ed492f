//! Browser sessions: a link that works once begins a session, which a cookie carries.
//!
//! The value of a link or a cookie is random; the store has only its digest, computed together with the
//! server's token, so that another token ends all sessions. A session belongs to one host name, expires, and
//! ends with `DELETE /api/session`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Path, Request, State};
use axum::http::header::{CACHE_CONTROL, COOKIE, HeaderName, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use grove_environments::problem::Problem;
use grove_model::Moment;
use grove_store::{NewBrowserSession, Store, StoreError};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ServerState;
use super::access::{RequestCaller, TokenDigest, is_page};
use super::fault::HttpError;
use super::host::RequestHost;
use super::openapi::AccessErrors;
use super::page::login_page;
use super::query::QueryParams;
use super::token::{random_secret, to_hex};
use crate::words;

/// The time for which a link can be followed.
const LINK_LIFETIME: SignedDuration = SignedDuration::from_mins(15);

/// The time for which a browser has access.
const SESSION_LIFETIME: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The interval at which an open stream checks whether its session is still valid.
const SESSION_CHECK_INTERVAL: Duration = Duration::from_secs(10);

const COOKIE_NAME: &str = "grove";

pub fn open_routes() -> Router<Arc<ServerState>> {
    Router::new().route("/login/{code}", get(log_in))
}

pub fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::default().routes(routes!(make_link)).routes(routes!(end_session))
}

impl TokenDigest {
    /// Returns the digest under which the store knows a link or a session.
    fn digest_of(&self, value: &str) -> String {
        to_hex(&Sha256::new().chain_update(self.token).chain_update(value).finalize())
    }
}

/// A valid browser session.
#[derive(Clone, Debug)]
pub struct BrowserSession {
    id: String,
    host: String,
}

impl BrowserSession {
    /// Finds the session of the request's cookie under this host.
    pub async fn find_by_cookie(
        app: &ServerState,
        headers: &HeaderMap,
        host: &RequestHost,
    ) -> Result<Option<Self>, StoreError> {
        let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let cookies = all.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        for (_, value) in cookies.filter(|(name, _)| *name == COOKIE_NAME) {
            let session = Self { id: app.keys.digest_of(value), host: host.name.clone() };
            if session.is_valid(&app.conversations.store).await? {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    async fn is_valid(&self, store: &Store) -> Result<bool, StoreError> {
        store.has_browser_session(&self.id, &self.host, Moment::now()).await
    }

    /// Returns when the session is known to have ended.
    pub async fn wait_until_ended(&self, store: &Store) {
        loop {
            tokio::time::sleep(SESSION_CHECK_INTERVAL).await;
            match self.is_valid(store).await {
                Ok(false) => return,
                Ok(true) => {}
                Err(error) => tracing::warn!(%error, "session not checked"),
            }
        }
    }
}

/// Creates a link that grants one browser access, once, for a client that connects to the host `asked`.
pub async fn new_link(app: &ServerState, asked: &RequestHost) -> Result<String, Problem> {
    let code = random_secret("grove_link_").map_err(|error| words::no_random_secret(&error))?;
    let host = asked.for_browsers(app.listen, &app.page_host);
    let expires_at = Moment::now().add_duration(LINK_LIFETIME);
    app.conversations.store.add_login_link(&app.keys.digest_of(&code), &host.name, expires_at).await?;
    Ok(format!("http://{host}/login/{code}"))
}

#[derive(Serialize, ToSchema)]
#[schema(as = LoginLink)]
struct LoginLinkJson {
    link: String,
}

/// Creates a link that grants one browser access, once.
#[utoipa::path(
    post,
    path = "/api/links",
    tag = "sessions",
    responses((status = 200, description = "The link; it works for 15 minutes.", body = LoginLinkJson), AccessErrors),
)]
async fn make_link(
    State(app): State<Arc<ServerState>>,
    Extension(host): Extension<RequestHost>,
) -> Result<Json<LoginLinkJson>, HttpError> {
    Ok(Json(LoginLinkJson { link: new_link(&app, &host).await? }))
}

#[derive(Deserialize)]
struct LoginQuery {
    /// The codebase to open.
    codebase: Option<String>,
}

/// Handles a link that a browser follows.
async fn log_in(
    State(app): State<Arc<ServerState>>,
    Extension(host): Extension<RequestHost>,
    Path(code): Path<String>,
    query: Result<QueryParams<LoginQuery>, HttpError>,
    request: Request,
) -> Response {
    if request.method() == Method::HEAD {
        // A client that only prefetches has not followed the link.
        return StatusCode::NO_CONTENT.into_response();
    }
    match begin_session(&app, &code, host).await {
        Ok(Some(value)) => {
            let codebase = query.ok().and_then(|QueryParams(LoginQuery { codebase })| codebase);
            let cookie = set_cookie(&value, SESSION_LIFETIME.as_secs());
            // Not a redirect: a browser that came from elsewhere would not send a strict cookie along.
            (
                [(SET_COOKIE, cookie.as_str()), (CACHE_CONTROL, "no-store")],
                login_page::render_logged_in(codebase.as_deref()),
            )
                .into_response()
        }
        Ok(None) if is_page(&request) => login_page::used_link(),
        Ok(None) => HttpError::new(StatusCode::UNAUTHORIZED, words::used_link()).into_response(),
        Err(problem) if is_page(&request) => HttpError::from(problem).into_page(),
        Err(problem) => HttpError::from(problem).into_response(),
    }
}

/// Uses a link up. Returns the cookie's value, unless the link does not work.
async fn begin_session(app: &ServerState, code: &str, host: RequestHost) -> Result<Option<String>, Problem> {
    let value = random_secret("grove_session_").map_err(|error| words::no_random_secret(&error))?;
    let now = Moment::now();
    let session = NewBrowserSession {
        id: app.keys.digest_of(&value),
        host: host.name,
        created_at: now,
        expires_at: now.add_duration(SESSION_LIFETIME),
    };
    let begun = app.conversations.store.open_browser_session(&app.keys.digest_of(code), &session).await?;
    Ok(begun.then_some(value))
}

#[derive(Serialize, ToSchema)]
#[schema(as = EndedSessions)]
struct EndedSessionsJson {
    /// The number of sessions that ended.
    ended: u64,
}

/// Ends the browser's session; with the token, all sessions.
#[utoipa::path(
    delete,
    path = "/api/session",
    tag = "sessions",
    responses((status = 200, description = "The sessions ended.", body = EndedSessionsJson), AccessErrors),
)]
async fn end_session(
    State(app): State<Arc<ServerState>>,
    Extension(caller): Extension<RequestCaller>,
) -> Result<impl IntoResponse, HttpError> {
    let only = match &caller {
        RequestCaller::Browser(session) => Some(session.id.as_str()),
        RequestCaller::Token => None,
    };
    let ended = app.conversations.store.end_browser_sessions(only).await?;
    // The browser leaves the page and sees the page for browsers without access.
    let headers = [(SET_COOKIE, set_cookie("", 0)), (HeaderName::from_static("hx-redirect"), "/".to_owned())];
    Ok((headers, Json(EndedSessionsJson { ended })))
}

/// Returns a cookie for this host only, hidden from scripts and not sent for other sites.
fn set_cookie(value: &str, seconds: i64) -> String {
    format!("{COOKIE_NAME}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}")
}
