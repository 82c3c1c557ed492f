//! A scripted language model for the real agents: it speaks their protocols, on loopback, and is
//! deterministic.
//!
//! It keeps nothing of a conversation. It reads its action from the request alone (`script.rs`), as
//! a model does: only the requests of an agent show that the agent remembers.

mod anthropic;
mod chat;
mod responses;
mod script;

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::Value;
use tokio::sync::oneshot;

/// The time between two words of a slow answer.
const SLOW_WORD_INTERVAL: Duration = Duration::from_millis(100);

/// A model that answers until this value is dropped.
pub struct FakeModel {
    address: String,
    asked: ModelRequestLog,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// A request that the model answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRequest {
    pub path: String,
    pub model: String,
    /// The last text of the person.
    pub said: String,
}

type ModelRequestLog = Arc<Mutex<Vec<ModelRequest>>>;

/// A part of an answer, in the words of its protocol; a slow one is sent after a pause.
struct AnswerPart {
    name: Option<String>,
    data: String,
    slow: bool,
}

impl AnswerPart {
    /// Makes a part whose event name is its type.
    fn with_type_name(data: &Value) -> Self {
        Self { name: data["type"].as_str().map(str::to_owned), ..Self::without_name(data) }
    }

    fn without_name(data: &Value) -> Self {
        Self { name: None, data: data.to_string(), slow: false }
    }
}

/// The differences between the protocols.
trait ModelProtocol: Copy + Send + Sync + 'static {
    /// Reads the conversation so far.
    fn read_conversation(self, request: &Value) -> script::ModelConversation;
    fn answer_parts(self, request: &Value, deed: &script::ModelAction) -> Vec<AnswerPart>;
    /// Returns the response body for a client with a wrong key.
    fn refusal_body(self) -> Value;
}

impl FakeModel {
    /// The key that agents must have.
    pub const API_KEY: &str = "sk-of-the-test-model";

    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("not blocking");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (asked, (stop, stopped)) = (ModelRequestLog::default(), oneshot::channel());
        let log = Arc::clone(&asked);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    served = async { axum::serve(listener, build_router(log)).await } => served.expect("it serves"),
                    _ = stopped => (),
                }
            });
        });
        Self { address, asked, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the address without a path: `http://127.0.0.1:PORT`.
    pub fn base_url(&self) -> &str {
        &self.address
    }

    /// Returns the requests so far, of agents with the right key.
    pub fn received_requests(&self) -> Vec<ModelRequest> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread has already printed its own panic.
            let _ = thread.join();
        }
    }
}

fn build_router(log: ModelRequestLog) -> Router {
    Router::new()
        .route("/v1/messages", protocol_route(anthropic::AnthropicMessages))
        .route("/v1/messages/count_tokens", post(anthropic::count_tokens))
        .route("/v1/responses", protocol_route(responses::OpenaiResponses))
        .route("/v1/chat/completions", protocol_route(chat::ChatCompletions))
        .with_state(log)
}

fn protocol_route<P: ModelProtocol>(protocol: P) -> axum::routing::MethodRouter<ModelRequestLog> {
    post(move |State(log): State<ModelRequestLog>, uri: Uri, headers: HeaderMap, body: String| async move {
        answer_request(protocol, &log, uri.path(), &headers, &body)
    })
}

fn answer_request<P: ModelProtocol>(
    protocol: P,
    log: &ModelRequestLog,
    path: &str,
    headers: &HeaderMap,
    body: &str,
) -> Response {
    if !may_ask(headers) {
        return (StatusCode::UNAUTHORIZED, axum::Json(protocol.refusal_body())).into_response();
    }
    let Ok(request) = serde_json::from_str::<Value>(body) else {
        return (StatusCode::BAD_REQUEST, "not JSON").into_response();
    };
    let told = protocol.read_conversation(&request);
    let model = request["model"].as_str().unwrap_or_default().to_owned();
    let said = told.said.last().cloned().unwrap_or_default();
    log.lock().unwrap_or_else(PoisonError::into_inner).push(ModelRequest { path: path.to_owned(), model, said });
    let parts = protocol.answer_parts(&request, &script::decide_action(&told));
    Sse::new(futures_util::stream::unfold(parts.into_iter(), |mut parts| async {
        let part = parts.next()?;
        if part.slow {
            tokio::time::sleep(SLOW_WORD_INTERVAL).await;
        }
        let event = part.name.map_or_else(Event::default, |name| Event::default().event(name));
        Some((Ok::<_, Infallible>(event.data(part.data)), parts))
    }))
    .into_response()
}

fn may_ask(headers: &HeaderMap) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    header("x-api-key") == FakeModel::API_KEY || header("authorization") == format!("Bearer {}", FakeModel::API_KEY)
}

/// Returns the elements of a list, or nothing.
fn list_elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a text, or the texts in a list.
fn content_texts(content: &Value) -> impl Iterator<Item = &str> {
    content.as_str().into_iter().chain(list_elements(content).filter_map(|part| part["text"].as_str()))
}

/// Tells whether the agent has a tool.
fn has_tool(tools: &Value, name: &str) -> bool {
    list_elements(tools).any(|tool| tool["name"] == name)
}
