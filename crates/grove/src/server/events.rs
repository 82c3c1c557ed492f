//! `GET /api/events`: live events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use futures_util::{Stream, StreamExt};
use grove_conversations::conversations::ConversationEvent;
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;

use super::ServerState;
use super::access::RequestCaller;
use super::fault::{HttpError, bad_query};

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/api/events", get(stream_events))
}

#[derive(Deserialize)]
struct EventsQuery {
    /// Only the events of this conversation.
    conversation: Option<String>,
}

impl EventsQuery {
    fn matches_event(&self, event: &ConversationEvent) -> bool {
        let Some(wanted) = &self.conversation else { return true };
        match event {
            ConversationEvent::Heard { conversation, .. }
            | ConversationEvent::Delta { conversation, .. }
            | ConversationEvent::Step { conversation, .. }
            | ConversationEvent::Said { conversation, .. } => conversation == wanted,
            ConversationEvent::Worktrees => false,
        }
    }
}

async fn stream_events(
    State(app): State<Arc<ServerState>>,
    Extension(caller): Extension<RequestCaller>,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, HttpError> {
    let Query(which) = query.map_err(|rejection| bad_query(&rejection))?;
    let stream =
        futures_util::stream::unfold((app.conversations.subscribe_events(), which), |(mut events, which)| async move {
            let event = loop {
                match events.recv().await {
                    Ok(event) if which.matches_event(&event) => break in_sse(&event),
                    Ok(_) => {}
                    // A client that is too slow has to reload everything.
                    Err(RecvError::Lagged(_)) => break Event::default().event("lagged").data("{}"),
                    Err(RecvError::Closed) => return None,
                }
            };
            Some((Ok(event), (events, which)))
        });
    let let_in = async move {
        match caller {
            RequestCaller::Browser(session) => session.wait_until_ended(&app.conversations.store).await,
            RequestCaller::Token => std::future::pending().await,
        }
    };
    let stream = stream.take_until(Box::pin(let_in));
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

fn in_sse(event: &ConversationEvent) -> Event {
    let name = match event {
        ConversationEvent::Heard { .. } => "heard",
        ConversationEvent::Delta { .. } => "delta",
        ConversationEvent::Step { .. } => "step",
        ConversationEvent::Said { .. } => "said",
        ConversationEvent::Worktrees => "worktrees",
    };
    let data = serde_json::to_string(event).unwrap_or_else(|_| "{}".to_owned());
    Event::default().event(name).data(data)
}
