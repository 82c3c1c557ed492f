//! A span for every request, with its outcome in the log.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use grove_model::EnvironmentId;
use tracing::field::{Empty, display};
use tracing::{Instrument, Span};

/// Handles a request in a span of its own, and logs how it ended.
pub async fn trace_request(request: Request, next: Next) -> Response {
    let (method, matched) = (request.method().clone(), request.extensions().get::<MatchedPath>().cloned());
    // The template of the path: the path itself may hold the secret of a link.
    let route = matched.as_ref().map_or("none", MatchedPath::as_str);
    let (conversation, environment, status, elapsed_ms) = (Empty, Empty, Empty, Empty);
    let span = tracing::info_span!("request", %method, %route, conversation, environment, status, elapsed_ms);
    let began = Instant::now();
    let response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    span.record("status", status.as_u16());
    span.record("elapsed_ms", began.elapsed().as_millis());
    let _entered = span.entered();
    if status.is_server_error() {
        tracing::warn!("request failed");
    } else if method.is_safe() && !status.is_client_error() {
        // Health checks, and clients that ask again and again.
        tracing::debug!("request answered");
    } else {
        tracing::info!("request answered");
    }
    response
}

/// Records the environment that the current request is about.
pub fn record_environment(id: EnvironmentId) {
    Span::current().record("environment", display(id));
}

/// Records the conversation that the current request is about, by its id on its platform.
pub fn record_conversation(id: &str) {
    Span::current().record("conversation", id);
}
