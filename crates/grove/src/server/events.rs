//! `GET /api/events`: live events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt};
use grove_conversations::conversations::ConversationEvent;
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ServerState;
use super::access::RequestCaller;
use super::fault::HttpError;
use super::openapi::AccessErrors;
use super::query::QueryParams;
use super::trace::record_conversation;
use crate::api_json::ErrorJson;

pub fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::default().routes(routes!(stream_events))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
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
            | ConversationEvent::Progress { conversation, .. }
            | ConversationEvent::Said { conversation, .. } => conversation == wanted,
            ConversationEvent::Worktrees | ConversationEvent::Settings => false,
        }
    }
}

/// Streams events: `heard`, `delta`, `step`, `progress`, `said`, `worktrees`, `settings`, `lagged`.
///
/// A `delta` is a piece of the answer to a message, and a `step` a line about the way there.
/// `progress` says how far a clone, fetch or checkout is; a later one replaces it. `said` and
/// `worktrees` mean that there is something new to read. After `lagged`, everything has to be read again.
#[utoipa::path(
    get,
    path = "/api/events",
    tag = "conversations",
    params(EventsQuery),
    responses(
        (status = 200, description = "Server-sent events.", body = String, content_type = "text/event-stream"),
        (status = 400, description = "The query cannot be read.", body = ErrorJson),
        AccessErrors,
    ),
)]
async fn stream_events(
    State(app): State<Arc<ServerState>>,
    Extension(caller): Extension<RequestCaller>,
    QueryParams(which): QueryParams<EventsQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, HttpError> {
    if let Some(conversation) = &which.conversation {
        record_conversation(conversation);
    }
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
        ConversationEvent::Progress { .. } => "progress",
        ConversationEvent::Said { .. } => "said",
        ConversationEvent::Worktrees => "worktrees",
        ConversationEvent::Settings => "settings",
    };
    let data = serde_json::to_string(event).unwrap_or_else(|_| "{}".to_owned());
    Event::default().event(name).data(data)
}
