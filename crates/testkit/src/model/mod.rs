//! A language model that does as it is told, for the real agents: it speaks the protocols that they
//! speak, on loopback, and is as sure as a script.
//!
//! It keeps nothing of a conversation. What to do is read from the request alone (`script.rs`), as
//! a model does: that an agent remembers is shown by what it sends.

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

/// Between two words of an answer that takes its time.
const PACE: Duration = Duration::from_millis(100);

/// A model that answers until this value goes.
pub struct Model {
    address: String,
    asked: Log,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// A request that the model answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub path: String,
    pub model: String,
    /// What the person said last.
    pub said: String,
}

type Log = Arc<Mutex<Vec<Asked>>>;

/// A part of an answer, as its protocol words it, and whether it is waited for.
struct Part {
    name: Option<String>,
    data: String,
    slow: bool,
}

impl Part {
    /// One that is called what its type is.
    fn typed(data: &Value) -> Self {
        Self { name: data["type"].as_str().map(str::to_owned), ..Self::plain(data) }
    }

    fn plain(data: &Value) -> Self {
        Self { name: None, data: data.to_string(), slow: false }
    }
}

/// What differs between the protocols.
trait Protocol: Copy + Send + Sync + 'static {
    /// The conversation so far.
    fn told(self, request: &Value) -> script::Told;
    fn answer(self, request: &Value, deed: &script::Deed) -> Vec<Part>;
    /// What somebody with a wrong key is told.
    fn refused(self) -> Value;
}

impl Model {
    /// The key that agents must have.
    pub const KEY: &str = "sk-of-the-test-model";

    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("not blocking");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (asked, (stop, stopped)) = (Log::default(), oneshot::channel());
        let log = Arc::clone(&asked);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    served = async { axum::serve(listener, routes(log)).await } => served.expect("it serves"),
                    _ = stopped => (),
                }
            });
        });
        Self { address, asked, stop: Some(stop), thread: Some(thread) }
    }

    /// Without a path: `http://127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it was asked so far, by agents with the right key.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Whatever went wrong in there was said there.
            let _ = thread.join();
        }
    }
}

fn routes(log: Log) -> Router {
    Router::new()
        .route("/v1/messages", of(anthropic::Messages))
        .route("/v1/messages/count_tokens", post(anthropic::count_tokens))
        .route("/v1/responses", of(responses::Responses))
        .route("/v1/chat/completions", of(chat::Completions))
        .with_state(log)
}

fn of<P: Protocol>(protocol: P) -> axum::routing::MethodRouter<Log> {
    post(move |State(log): State<Log>, uri: Uri, headers: HeaderMap, body: String| async move {
        answer(protocol, &log, uri.path(), &headers, &body)
    })
}

fn answer<P: Protocol>(protocol: P, log: &Log, path: &str, headers: &HeaderMap, body: &str) -> Response {
    if !may_ask(headers) {
        return (StatusCode::UNAUTHORIZED, axum::Json(protocol.refused())).into_response();
    }
    let Ok(request) = serde_json::from_str::<Value>(body) else {
        return (StatusCode::BAD_REQUEST, "not JSON").into_response();
    };
    let told = protocol.told(&request);
    let model = request["model"].as_str().unwrap_or_default().to_owned();
    let said = told.said.last().cloned().unwrap_or_default();
    log.lock().unwrap_or_else(PoisonError::into_inner).push(Asked { path: path.to_owned(), model, said });
    let parts = protocol.answer(&request, &script::decide(&told));
    Sse::new(futures_util::stream::unfold(parts.into_iter(), |mut parts| async {
        let part = parts.next()?;
        if part.slow {
            tokio::time::sleep(PACE).await;
        }
        let event = part.name.map_or_else(Event::default, |name| Event::default().event(name));
        Some((Ok::<_, Infallible>(event.data(part.data)), parts))
    }))
    .into_response()
}

fn may_ask(headers: &HeaderMap) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    header("x-api-key") == Model::KEY || header("authorization") == format!("Bearer {}", Model::KEY)
}

/// The elements of a list, or nothing.
fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A text, or the texts that a list has.
fn texts(content: &Value) -> impl Iterator<Item = &str> {
    content.as_str().into_iter().chain(list(content).filter_map(|part| part["text"].as_str()))
}

/// Whether the agent has a tool.
fn offers(tools: &Value, name: &str) -> bool {
    list(tools).any(|tool| tool["name"] == name)
}
