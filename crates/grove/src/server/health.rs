//! `/health`, `/ready`, `/metrics`

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use grove_store::Store;
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ServerState;
use super::openapi::AccessErrors;

/// The time for which the outcome of a write probe is valid: many requests cost one write a second.
const PROBE_LIFETIME: Duration = Duration::from_secs(1);

/// The time that the store may take to answer a write probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The outcome of the last test write to the store.
#[derive(Default)]
pub struct WriteProbe {
    last: Mutex<Option<(Instant, bool)>>,
}

impl WriteProbe {
    /// Tells whether the store takes writes. Concurrent requests share one probe.
    async fn check_write(&self, store: &Store) -> bool {
        let mut last = self.last.lock().await;
        if let Some((at, succeeded)) = *last
            && at.elapsed() < PROBE_LIFETIME
        {
            return succeeded;
        }
        let succeeded = match tokio::time::timeout(PROBE_TIMEOUT, store.probe_write()).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "store takes no writes");
                false
            }
            Err(_) => {
                tracing::warn!(timeout_s = PROBE_TIMEOUT.as_secs(), "store does not answer");
                false
            }
        };
        *last = Some((Instant::now(), succeeded));
        succeeded
    }
}

pub fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::default().routes(routes!(show_health)).routes(routes!(show_readiness))
}

pub fn closed_routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::default().routes(routes!(render_metrics))
}

#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
struct HealthJson {
    status: HealthWord,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum HealthWord {
    Ok,
    Failed,
}

/// Reports that the program runs.
#[utoipa::path(
    get,
    path = "/health",
    tag = "server",
    security(()),
    responses((status = 200, description = "It runs.", body = HealthJson)),
)]
async fn show_health() -> Json<HealthJson> {
    Json(HealthJson { status: HealthWord::Ok })
}

#[derive(Serialize, ToSchema)]
#[schema(as = Readiness)]
struct ReadinessJson {
    status: HealthWord,
    store: HealthWord,
    /// The server is shutting down.
    ending: bool,
}

/// Reports whether messages can be accepted: the store takes writes, and the server is not shutting down.
#[utoipa::path(
    get,
    path = "/ready",
    tag = "server",
    security(()),
    responses(
        (status = 200, description = "Messages are accepted.", body = ReadinessJson),
        (status = 503, description = "The store takes no writes, or the server is shutting down.", body = ReadinessJson),
    ),
)]
async fn show_readiness(State(app): State<Arc<ServerState>>) -> (StatusCode, Json<ReadinessJson>) {
    let ending = *app.ending.borrow();
    let store = app.write_probe.check_write(&app.conversations.store).await;
    let ready = store && !ending;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let word = |good: bool| if good { HealthWord::Ok } else { HealthWord::Failed };
    (status, Json(ReadinessJson { status: word(ready), store: word(store), ending }))
}

/// Renders figures for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "server",
    responses((status = 200, description = "The figures.", body = String, content_type = "text/plain"), AccessErrors),
)]
async fn render_metrics(State(app): State<Arc<ServerState>>) -> impl IntoResponse {
    if let Ok((running, waiting)) = app.conversations.store.queue_counts().await {
        metrics::gauge!("grove_messages_running").set(running as f64);
        metrics::gauge!("grove_messages_waiting").set(waiting as f64);
    }
    metrics::gauge!("grove_turns_running").set(app.conversations.running_turn_count() as f64);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render())
}
