//! `POST /webhooks/…`: events from platforms. A valid signature grants access, without a token.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use grove_environments::problem::Problem;
use grove_platforms::github::inbound::webhook::{WebhookError, WebhookRequest};
use serde_json::{Value, json};

use super::ServerState;
use super::body::{BodyReadTimeouts, read_body};
use super::fault::HttpError;

/// The largest webhook that GitHub sends.
const MAX_WEBHOOK_BYTES: usize = 25 * 1024 * 1024;

/// The number of bodies in memory at once whose signature is not checked yet: any client can send them.
pub const MAX_UNSIGNED_BODIES: usize = 8;

/// The time limits for such a body, so that no sender blocks the others; GitHub itself waits 10 seconds for
/// an answer.
const UNSIGNED_READ_TIMEOUTS: BodyReadTimeouts =
    BodyReadTimeouts { whole: Duration::from_secs(10), stalled: Duration::from_secs(3) };

/// The time that a delivery waits to be read: a moment longer than the limit for a stalled one.
const UNSIGNED_WAIT_TIMEOUT: Duration = Duration::from_secs(4);

/// The number of seconds after which a delivery that was not read may be sent again.
const UNSIGNED_RETRY_AFTER: u32 = 10;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/webhooks/github", post(receive_github_webhook))
}

async fn receive_github_webhook(
    State(app): State<Arc<ServerState>>,
    request: Request,
) -> Result<(StatusCode, Json<Value>), HttpError> {
    let Some(adapter) = &app.github else {
        let hint = "Set `adapters.github.webhook_secret`.";
        let problem = Problem::new("not_found", "GitHub is not configured here.", hint);
        return Err(HttpError::new(StatusCode::NOT_FOUND, problem));
    };
    let headers = request.headers().clone();
    // The semaphore is never closed, so only the timeout can fail here.
    let Ok(Ok(place)) = tokio::time::timeout(UNSIGNED_WAIT_TIMEOUT, app.unsigned_bodies.acquire()).await else {
        let problem = Problem::new("too_many", "Too many deliveries arrive at once.", "Send it again later.");
        return Err(HttpError::new(StatusCode::SERVICE_UNAVAILABLE, problem).retry_after(UNSIGNED_RETRY_AFTER));
    };
    let body = read_body(request, MAX_WEBHOOK_BYTES, UNSIGNED_READ_TIMEOUTS).await?;
    let knock = WebhookRequest {
        signature: headers.get("x-hub-signature-256").map(|value| value.as_bytes()),
        event: header_text(&headers, "x-github-event"),
        delivery: header_text(&headers, "x-github-delivery"),
        content_type: header_text(&headers, CONTENT_TYPE.as_str()).unwrap_or_default(),
        body: &body,
    };
    let signed = adapter.verify_signature(knock).map_err(to_http_error)?;
    drop(place);
    match adapter.store_delivery(signed).await {
        Ok(new) => Ok((StatusCode::ACCEPTED, Json(json!({ "accepted": true, "new": new })))),
        Err(refused) => Err(to_http_error(refused)),
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn to_http_error(refused: WebhookError) -> HttpError {
    let message = grove_environments::problem::sentence(&refused.to_string());
    let (status, code, hint) = match refused {
        WebhookError::BadSignature => (
            StatusCode::UNAUTHORIZED,
            "bad_signature",
            "Give the webhook the secret that `adapters.github.webhook_secret` has.",
        ),
        WebhookError::Missing(_) | WebhookError::NoPayload | WebhookError::Malformed(_) => {
            (StatusCode::BAD_REQUEST, "bad_request", "Send what GitHub sends.")
        }
        WebhookError::Store(error) => return error.into(),
    };
    HttpError::new(status, Problem::new(code, message, hint))
}
