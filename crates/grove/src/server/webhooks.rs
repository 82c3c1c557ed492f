//! `POST /webhooks/…`: events from platforms. A valid signature grants access, without a token.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use grove_platforms::github::inbound::webhook::WebhookRequest;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ServerState;
use super::body::{BodyReadTimeouts, read_body};
use super::fault::HttpError;
use super::openapi::BodyErrors;
use crate::api_json::ErrorJson;
use crate::words;

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

pub fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::default().routes(routes!(receive_github_webhook))
}

/// A delivery that was accepted.
#[derive(Serialize, ToSchema)]
#[schema(as = AcceptedDelivery)]
struct AcceptedDeliveryJson {
    accepted: bool,
    /// It needs handling and was not delivered before.
    new: bool,
}

/// Receives an event from GitHub.
#[utoipa::path(
    post,
    path = "/webhooks/github",
    tag = "webhooks",
    security(()),
    params(
        ("X-Hub-Signature-256" = String, Header, description = "The HMAC SHA-256 of the body."),
        ("X-GitHub-Event" = String, Header, description = "The name of the event."),
        ("X-GitHub-Delivery" = String, Header, description = "Identifies the delivery; each is accepted once."),
    ),
    request_body(
        description = "The event, as JSON or as a form with the field `payload`.",
        content((Object = "application/json"), (Object = "application/x-www-form-urlencoded")),
    ),
    responses(
        (status = 202, description = "The event is stored, unless it needs no handling.", body = AcceptedDeliveryJson),
        (status = 401, description = "The signature is missing or wrong.", body = ErrorJson),
        (status = 404, description = "GitHub is not configured here.", body = ErrorJson),
        (status = 503, description = "Too many deliveries arrive at once, or the store does not answer.", body = ErrorJson),
        BodyErrors,
    ),
)]
async fn receive_github_webhook(
    State(app): State<Arc<ServerState>>,
    request: Request,
) -> Result<(StatusCode, Json<AcceptedDeliveryJson>), HttpError> {
    let Some(adapter) = &app.github else {
        return Err(words::github_not_configured().into());
    };
    let headers = request.headers().clone();
    // The semaphore is never closed, so only the timeout can fail here.
    let Ok(Ok(place)) = tokio::time::timeout(UNSIGNED_WAIT_TIMEOUT, app.unsigned_bodies.acquire()).await else {
        let refused = HttpError::new(StatusCode::SERVICE_UNAVAILABLE, words::too_many_deliveries());
        return Err(refused.retry_after(UNSIGNED_RETRY_AFTER));
    };
    let body = read_body(request, MAX_WEBHOOK_BYTES, UNSIGNED_READ_TIMEOUTS).await?;
    let knock = WebhookRequest {
        signature: headers.get("x-hub-signature-256").map(|value| value.as_bytes()),
        event: header_text(&headers, "x-github-event"),
        delivery: header_text(&headers, "x-github-delivery"),
        content_type: header_text(&headers, CONTENT_TYPE.as_str()).unwrap_or_default(),
        body: &body,
    };
    let signed = adapter.verify_signature(knock).map_err(words::webhook_refused)?;
    drop(place);
    let new = adapter.store_delivery(signed).await.map_err(words::webhook_refused)?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedDeliveryJson { accepted: true, new })))
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
