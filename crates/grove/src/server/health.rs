//! `/health`, `/ready`, `/metrics`

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use grove_store::Store;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::ServerState;

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
                tracing::warn!("not ready: {error}");
                false
            }
            Err(_) => {
                tracing::warn!("not ready: the store did not answer within {} s", PROBE_TIMEOUT.as_secs());
                false
            }
        };
        *last = Some((Instant::now(), succeeded));
        succeeded
    }
}

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/health", get(async || Json(json!({ "status": "ok" })))).route("/ready", get(show_readiness))
}

pub fn closed_routes() -> Router<Arc<ServerState>> {
    Router::new().route("/metrics", get(render_metrics))
}

/// Reports whether messages can be accepted: the store takes writes, and the server is not shutting down.
async fn show_readiness(State(app): State<Arc<ServerState>>) -> (StatusCode, Json<Value>) {
    let ending = *app.ending.borrow();
    let store = app.write_probe.check_write(&app.conversations.store).await;
    let ready = store && !ending;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let word = |good: bool| if good { "ok" } else { "failed" };
    (status, Json(json!({ "status": word(ready), "store": word(store), "ending": ending })))
}

async fn render_metrics(State(app): State<Arc<ServerState>>) -> impl IntoResponse {
    if let Ok((running, waiting)) = app.conversations.store.queue_counts().await {
        metrics::gauge!("grove_messages_running").set(running as f64);
        metrics::gauge!("grove_messages_waiting").set(waiting as f64);
    }
    metrics::gauge!("grove_turns_running").set(app.conversations.running_turn_count() as f64);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render())
}
