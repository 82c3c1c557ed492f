//! A fake Telegram for tests: the HTTP Bot API on loopback, with chats, people and memory.
//!
//! People act in it by name: `telegram.say("alice", chat, "hello")`. The bot gets their messages by long
//! polling, with Telegram's rules for offsets, or by its webhook.

mod api;
mod markdown;
mod people;
mod state;

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::github::faults::HeldRequests;
use crate::github::http::{HttpRequest, HttpResponse, serve_requests};
pub use markdown::{ParsedMarkdown, parse_markdown_v2};
pub use state::BotMessage;
use state::{FakeTelegramState, PlannedFault};

/// The name of the bot.
pub const BOT_NAME: &str = "grove_bot";
/// The id of the bot.
pub const BOT_ID: i64 = 7_000_001;

/// A fake Telegram. Clones share the same server.
#[derive(Clone)]
pub struct FakeTelegram {
    server: Arc<FakeServer>,
}

struct FakeServer {
    inner: Arc<FakeTelegramInner>,
    ending: Arc<AtomicBool>,
}

struct FakeTelegramInner {
    state: Mutex<FakeTelegramState>,
    /// Notified when there are new updates, or a new request for updates.
    changed: Condvar,
    held: HeldRequests,
}

/// A request of the bot.
#[derive(Clone, Debug)]
pub struct BotRequest {
    /// `sendMessage`, `getUpdates`, …
    pub method: String,
    pub body: Value,
    /// 0 if the connection was dropped before anything was done.
    pub status: u16,
}

/// A failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BotFault {
    /// No failure: the next planned one hits the request after this one.
    Spared,
    /// 429.
    TooMany {
        retry_after: u64,
    },
    Status(u16),
    /// 400, as if the text had a mistake.
    BadEntities,
    /// The connection breaks before anything is done.
    DropBefore,
    /// The request is carried out, and the connection breaks before the response.
    DropAfter,
    /// As `DropBefore`, but not before the test releases the request: [`FakeTelegram::let_go`].
    HoldBefore,
    /// As `DropAfter`, but not before the test releases the request.
    HoldAfter,
}

impl FakeTelegram {
    /// Starts a Telegram with one bot.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let inner = Arc::new(FakeTelegramInner {
            state: Mutex::new(FakeTelegramState::new(address)),
            changed: Condvar::new(),
            held: HeldRequests::default(),
        });
        let (ending, serving) = (Arc::new(AtomicBool::new(false)), inner.clone());
        serve_requests(listener, ending.clone(), move |request| serving.answer_request(request));
        Self { server: Arc::new(FakeServer { inner, ending }) }
    }

    fn lock_state(&self) -> MutexGuard<'_, FakeTelegramState> {
        self.server.inner.lock_state()
    }

    /// Returns the part of the address before `/bot<token>`.
    pub fn api_url(&self) -> String {
        self.lock_state().address.clone()
    }

    pub fn token(&self) -> String {
        self.lock_state().token.clone()
    }

    /// Replaces the token; the old one is refused.
    pub fn revoke_token(&self) -> String {
        let mut state = self.lock_state();
        state.token = format!("{BOT_ID}:another-{}", state.token.len());
        state.token.clone()
    }

    /// Makes an old token valid again.
    pub fn accept_token(&self, token: &str) {
        self.lock_state().token = token.to_owned();
    }

    /// Makes the next requests with this method fail; an empty method means all.
    pub fn fail_next(&self, method: &str, times: usize, fault: BotFault) {
        self.lock_state().faults.push(PlannedFault { method: method.to_owned(), times, fault });
    }

    /// Removes all planned failures.
    pub fn faults_over(&self) {
        self.lock_state().faults.clear();
    }

    /// Waits until a request is held; returns false after `patience`.
    pub fn holds_soon(&self, patience: Duration) -> bool {
        self.server.inner.held.wait_for_held(patience)
    }

    /// Releases all held requests.
    pub fn let_go(&self) {
        self.server.inner.held.let_go();
    }

    /// Returns the requests so far.
    pub fn received_requests(&self) -> Vec<BotRequest> {
        self.lock_state().requests.clone()
    }

    pub fn count_requests(&self, method: &str) -> usize {
        self.lock_state().requests.iter().filter(|asked| asked.method == method).count()
    }

    /// Sets the webhook, as a person does with curl.
    pub fn set_webhook(&self, url: &str, secret: &str) {
        self.lock_state().webhook = Some((url.to_owned(), secret.to_owned()));
    }

    pub fn delete_webhook(&self) {
        self.lock_state().webhook = None;
    }

    /// Sets the text of the last failed delivery to the webhook.
    pub fn set_webhook_error(&self, text: &str) {
        self.lock_state().webhook_error = Some(text.to_owned());
    }

    /// Returns the updates that the bot has not confirmed.
    pub fn pending_updates(&self) -> Vec<Value> {
        self.lock_state().updates.iter().map(|(_, update)| update.clone()).collect()
    }

    /// Returns all updates so far, also those that the bot has confirmed.
    pub fn all_updates(&self) -> Vec<Value> {
        self.lock_state().sent_updates.clone()
    }

    /// Puts an update before the bot, with the next number.
    pub fn push_update(&self, update: Value) {
        self.lock_state().add_update(update);
        self.server.inner.changed.notify_all();
    }

    /// Puts an update before the bot that has its number already.
    pub fn push_numbered(&self, update: Value) {
        let mut state = self.lock_state();
        let number = update["update_id"].as_i64().unwrap_or(0);
        state.updates.push((number, update));
        drop(state);
        self.server.inner.changed.notify_all();
    }

    /// Sends the pending updates to the webhook, and returns the statuses; accepted ones are removed.
    pub fn deliver_updates(&self) -> Vec<u16> {
        let (url, secret) = self.lock_state().webhook.clone().expect("a webhook");
        let pending = std::mem::take(&mut self.lock_state().updates);
        let mut statuses = Vec::new();
        for (number, update) in pending {
            let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
            let request = agent.post(&url).header("x-telegram-bot-api-secret-token", &secret);
            let status = request.send_json(&update).map_or(0, |response| response.status().as_u16());
            if !(200..300).contains(&status) {
                self.lock_state().updates.push((number, update));
            }
            statuses.push(status);
        }
        statuses
    }
}

impl FakeTelegramInner {
    fn lock_state(&self) -> MutexGuard<'_, FakeTelegramState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one request, including its planned failure; `None` drops the connection.
    fn answer_request(&self, request: &HttpRequest) -> Option<HttpResponse> {
        let method = request.path.rsplit('/').next().unwrap_or_default().to_owned();
        let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        let fault = self.lock_state().next_fault(&method);
        let record = |status| {
            let asked = BotRequest { method: method.clone(), body: body.clone(), status };
            self.lock_state().requests.push(asked);
        };
        let response = match fault {
            Some(BotFault::DropBefore | BotFault::HoldBefore) => {
                record(0);
                if fault == Some(BotFault::HoldBefore) {
                    self.held.wait_for_release();
                }
                return None;
            }
            Some(BotFault::TooMany { retry_after }) => api::limit_response(retry_after),
            Some(BotFault::Status(status)) => api::error_response(status, "Something went wrong"),
            Some(BotFault::BadEntities) => api::error_response(400, "Bad Request: can't parse entities: no reason"),
            None | Some(BotFault::Spared | BotFault::DropAfter | BotFault::HoldAfter) => {
                self.answer_method(request, &method, &body)
            }
        };
        record(response.status);
        if fault == Some(BotFault::HoldAfter) {
            self.held.wait_for_release();
        }
        let breaks = matches!(fault, Some(BotFault::DropAfter | BotFault::HoldAfter));
        (!breaks).then_some(response)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for the next connection.
        let address = self.inner.lock_state().address.trim_start_matches("http://").to_owned();
        drop(TcpStream::connect(address));
    }
}
