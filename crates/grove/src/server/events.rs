//! `GET /api/events`: what happens, as it happens.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use futures_util::Stream;
use grove_engine::talk::TalkEvent;
use tokio::sync::broadcast::error::RecvError;

use super::App;

pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/api/events", get(events))
}

async fn events(State(app): State<Arc<App>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let stream = futures_util::stream::unfold(app.talks.watch(), |mut events| async move {
        let event = match events.recv().await {
            Ok(event) => in_sse(&event),
            // Whoever is too slow looks at everything again.
            Err(RecvError::Lagged(_)) => Event::default().event("lagged").data("{}"),
            Err(RecvError::Closed) => return None,
        };
        Some((Ok(event), events))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
}

fn in_sse(event: &TalkEvent) -> Event {
    let name = match event {
        TalkEvent::Heard { .. } => "heard",
        TalkEvent::Delta { .. } => "delta",
        TalkEvent::Said { .. } => "said",
        TalkEvent::Worktrees => "worktrees",
    };
    let data = serde_json::to_string(event).unwrap_or_else(|_| "{}".to_owned());
    Event::default().event(name).data(data)
}
