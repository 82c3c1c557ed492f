//! `POST /webhooks/…`: events from platforms. A valid signature grants access, without a token.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use grove_platforms::webhook::{WebhookReply, WebhookRequest};
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
    OpenApiRouter::default()
        .routes(routes!(receive_github_webhook))
        .routes(routes!(receive_slack_webhook))
        .routes(routes!(receive_telegram_webhook))
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
async fn receive_github_webhook(state: State<Arc<ServerState>>, request: Request) -> Result<Response, HttpError> {
    receive_webhook(&state, "github", request).await
}

/// Receives an event or a pressed button from Slack.
#[utoipa::path(
    post,
    path = "/webhooks/slack",
    tag = "webhooks",
    security(()),
    params(
        ("X-Slack-Signature" = String, Header, description = "`v0=` and the HMAC SHA-256 of version, timestamp and body."),
        ("X-Slack-Request-Timestamp" = String, Header, description = "Seconds since 1970; at most five minutes from now."),
    ),
    request_body(
        description = "The event as JSON, or a pressed button as a form with the field `payload`.",
        content((Object = "application/json"), (Object = "application/x-www-form-urlencoded")),
    ),
    responses(
        (status = 200, description = "The challenge of Slack's verification of this address.", body = String, content_type = "text/plain"),
        (status = 202, description = "The event is stored, unless it needs no handling.", body = AcceptedDeliveryJson),
        (status = 401, description = "The signature is missing, wrong or too old.", body = ErrorJson),
        (status = 404, description = "Slack is not configured here.", body = ErrorJson),
        (status = 503, description = "Too many deliveries arrive at once, or the store does not answer.", body = ErrorJson),
        BodyErrors,
    ),
)]
async fn receive_slack_webhook(state: State<Arc<ServerState>>, request: Request) -> Result<Response, HttpError> {
    receive_webhook(&state, "slack", request).await
}

/// Receives an update from Telegram.
#[utoipa::path(
    post,
    path = "/webhooks/telegram",
    tag = "webhooks",
    security(()),
    params(("X-Telegram-Bot-Api-Secret-Token" = String, Header, description = "The secret of the webhook.")),
    request_body(description = "The update.", content((Object = "application/json"))),
    responses(
        (status = 202, description = "The update is stored, unless it needs no handling.", body = AcceptedDeliveryJson),
        (status = 401, description = "The secret is missing or wrong.", body = ErrorJson),
        (status = 404, description = "Telegram's webhook is not configured here.", body = ErrorJson),
        (status = 503, description = "Too many deliveries arrive at once, or the store does not answer.", body = ErrorJson),
        BodyErrors,
    ),
)]
async fn receive_telegram_webhook(state: State<Arc<ServerState>>, request: Request) -> Result<Response, HttpError> {
    receive_webhook(&state, "telegram", request).await
}

/// Reads, verifies and stores a request of a platform.
async fn receive_webhook(app: &ServerState, platform: &'static str, request: Request) -> Result<Response, HttpError> {
    let Some(receiver) = app.adapters.webhook_receiver(platform) else {
        return Err(words::platform_not_configured(platform).into());
    };
    let headers = request.headers().clone();
    // The semaphore is never closed, so only the timeout can fail here.
    let Ok(Ok(place)) = tokio::time::timeout(UNSIGNED_WAIT_TIMEOUT, app.unsigned_bodies.acquire()).await else {
        let refused = HttpError::new(StatusCode::SERVICE_UNAVAILABLE, words::too_many_deliveries());
        return Err(refused.retry_after(UNSIGNED_RETRY_AFTER));
    };
    let body = read_body(request, MAX_WEBHOOK_BYTES, UNSIGNED_READ_TIMEOUTS).await?;
    let received = WebhookRequest { headers: &headers, body: &body };
    let refused = |error| words::webhook_refused(platform, error);
    receiver.verify_request(received).map_err(refused)?;
    drop(place);
    Ok(match receiver.store_request(received).await.map_err(refused)? {
        WebhookReply::Accepted { new } => {
            (StatusCode::ACCEPTED, Json(AcceptedDeliveryJson { accepted: true, new })).into_response()
        }
        WebhookReply::Text(text) => text.into_response(),
    })
}
