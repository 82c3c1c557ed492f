//! `/health`, `/ready`, `/metrics`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::App;

pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/health", get(async || Json(json!({ "status": "ok" })))).route("/ready", get(ready))
}

pub fn closed_routes() -> Router<Arc<App>> {
    Router::new().route("/metrics", get(metrics))
}

/// Whether messages can be taken: the store answers, and we are not ending.
async fn ready(State(app): State<Arc<App>>) -> (StatusCode, Json<Value>) {
    let ending = *app.ending.borrow();
    let store = app.talks.store.queue().await.is_ok();
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
