//! `POST /webhooks/…`: what platforms tell. Whoever signs is let in, without a token.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use grove_environments::problem::Problem;
use grove_platforms::github::inbound::webhook::{Knock, Refused};
use serde_json::{Value, json};

use super::App;
use super::body::{ReadTime, whole};
use super::fault::Fault;

/// The largest webhook that GitHub sends.
const LARGEST: usize = 25 * 1024 * 1024;

/// How many bodies are in memory at once whose signature is not checked yet: anybody can send them.
pub const MAX_UNSIGNED_BODIES: usize = 8;

/// How long such a body may take, so that nobody keeps the others out; GitHub itself waits 10 seconds for
/// an answer.
const UNSIGNED_READ_TIME: ReadTime = ReadTime { whole: Duration::from_secs(10), stalled: Duration::from_secs(3) };

/// How long a delivery waits to be read: a moment longer than one that moves nothing.
const UNSIGNED_WAIT: Duration = Duration::from_secs(4);

/// When a delivery that was not read may be sent again, in seconds.
const UNSIGNED_RETRY_AFTER: u32 = 10;

pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/webhooks/github", post(github))
}

async fn github(State(app): State<Arc<App>>, request: Request) -> Result<(StatusCode, Json<Value>), Fault> {
    let Some(adapter) = &app.github else {
        let hint = "Set `adapters.github.webhook_secret`.";
        let problem = Problem::new("not_found", "GitHub is not configured here.", hint);
        return Err(Fault::new(StatusCode::NOT_FOUND, problem));
    };
    let headers = request.headers().clone();
    // Never closed, so that only the time can run out.
    let Ok(Ok(place)) = tokio::time::timeout(UNSIGNED_WAIT, app.unsigned_bodies.acquire()).await else {
        let problem = Problem::new("too_many", "Too many deliveries arrive at once.", "Send it again later.");
        return Err(Fault::new(StatusCode::SERVICE_UNAVAILABLE, problem).retry_after(UNSIGNED_RETRY_AFTER));
    };
    let body = whole(request, LARGEST, UNSIGNED_READ_TIME).await?;
    let knock = Knock {
        signature: headers.get("x-hub-signature-256").map(|value| value.as_bytes()),
        event: text(&headers, "x-github-event"),
        delivery: text(&headers, "x-github-delivery"),
        content_type: text(&headers, CONTENT_TYPE.as_str()).unwrap_or_default(),
        body: &body,
    };
    let signed = adapter.verify(knock).map_err(fault)?;
    drop(place);
    match adapter.take(signed).await {
        Ok(new) => Ok((StatusCode::ACCEPTED, Json(json!({ "accepted": true, "new": new })))),
        Err(refused) => Err(fault(refused)),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn fault(refused: Refused) -> Fault {
    let message = grove_environments::problem::sentence(&refused.to_string());
    let (status, code, hint) = match refused {
        Refused::BadSignature => (
            StatusCode::UNAUTHORIZED,
            "bad_signature",
            "Give the webhook the secret that `adapters.github.webhook_secret` has.",
        ),
        Refused::Missing(_) | Refused::NoPayload | Refused::Malformed(_) => {
            (StatusCode::BAD_REQUEST, "bad_request", "Send what GitHub sends.")
        }
        Refused::Store(error) => return error.into(),
    };
    Fault::new(status, Problem::new(code, message, hint))
}
