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

use super::App;

/// How long the outcome of a write probe counts: many questions cost one write a second.
const PROBE_LIFETIME: Duration = Duration::from_secs(1);

/// How long the store may take to answer a write probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The outcome of the last write to the store that was made only to see whether it works.
#[derive(Default)]
pub struct WriteProbe {
    last: Mutex<Option<(Instant, bool)>>,
}

impl WriteProbe {
    /// Returns whether the store takes writes. Questions that come together share one probe.
    async fn succeeds(&self, store: &Store) -> bool {
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

pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/health", get(async || Json(json!({ "status": "ok" })))).route("/ready", get(ready))
}

pub fn closed_routes() -> Router<Arc<App>> {
    Router::new().route("/metrics", get(metrics))
}

/// Says whether messages can be taken: the store takes writes, and the server is not ending.
async fn ready(State(app): State<Arc<App>>) -> (StatusCode, Json<Value>) {
    let ending = *app.ending.borrow();
    let store = app.write_probe.succeeds(&app.talks.store).await;
    let ready = store && !ending;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let word = |good: bool| if good { "ok" } else { "failed" };
    (status, Json(json!({ "status": word(ready), "store": word(store), "ending": ending })))
}

async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    if let Ok((running, waiting)) = app.talks.store.queue().await {
        metrics::gauge!("grove_messages_running").set(running as f64);
        metrics::gauge!("grove_messages_waiting").set(waiting as f64);
    }
    metrics::gauge!("grove_turns_running").set(app.talks.running() as f64);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render())
}
