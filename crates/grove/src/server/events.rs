//! `GET /api/events`: what happens, as it happens.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use futures_util::{Stream, StreamExt};
use grove_conversations::conversations::TalkEvent;
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;

use super::App;
use super::access::Caller;
use super::fault::{Fault, bad_query};

pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/api/events", get(events))
}

#[derive(Deserialize)]
struct Which {
    /// Only what happens in this one.
    conversation: Option<String>,
}

impl Which {
    fn takes(&self, event: &TalkEvent) -> bool {
        let Some(wanted) = &self.conversation else { return true };
        match event {
            TalkEvent::Heard { conversation, .. }
            | TalkEvent::Delta { conversation, .. }
            | TalkEvent::Step { conversation, .. }
            | TalkEvent::Said { conversation, .. } => conversation == wanted,
            TalkEvent::Worktrees => false,
        }
    }
}

async fn events(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Result<Query<Which>, QueryRejection>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Fault> {
    let Query(which) = query.map_err(|rejection| bad_query(&rejection))?;
    let stream = futures_util::stream::unfold((app.talks.watch(), which), |(mut events, which)| async move {
        let event = loop {
            match events.recv().await {
                Ok(event) if which.takes(&event) => break in_sse(&event),
                Ok(_) => {}
                // Whoever is too slow looks at everything again.
                Err(RecvError::Lagged(_)) => break Event::default().event("lagged").data("{}"),
                Err(RecvError::Closed) => return None,
            }
        };
        Some((Ok(event), (events, which)))
    });
    let let_in = async move {
        match caller {
            Caller::Browser(session) => session.ended(&app.talks.store).await,
            Caller::Token => std::future::pending().await,
        }
    };
    let stream = stream.take_until(Box::pin(let_in));
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

fn in_sse(event: &TalkEvent) -> Event {
    let name = match event {
        TalkEvent::Heard { .. } => "heard",
        TalkEvent::Delta { .. } => "delta",
        TalkEvent::Step { .. } => "step",
        TalkEvent::Said { .. } => "said",
        TalkEvent::Worktrees => "worktrees",
    };
    let data = serde_json::to_string(event).unwrap_or_else(|_| "{}".to_owned());
    Event::default().event(name).data(data)
}
