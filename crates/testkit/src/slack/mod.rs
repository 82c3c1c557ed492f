//! A fake Slack for tests: its API, its sockets, its signed webhooks, on loopback, with state.
//!
//! People act in it by name: `slack.say("alice", "C1", "@grove hello")`. Their actions are sent to the sockets of
//! the app, or to its webhook. An envelope that is not acknowledged is sent again on another socket.

mod api;
mod events;
mod people;
mod sockets;
mod state;

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::github::faults::HeldRequests;
use crate::github::http;
pub use events::{SentEvent, sign_request};
pub use people::SlackMessageView;
use state::{FakeSlackState, PlannedFault};

/// The bot's user.
pub const BOT_USER: &str = "UBOT";
pub const BOT_TOKEN: &str = "xoxb-fake-1234567890-abcdefghij";
pub const APP_TOKEN: &str = "xapp-1-A1-1234567890-fakefakefake";
pub const SIGNING_SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A fake Slack. Clones share the same server.
#[derive(Clone)]
pub struct FakeSlack {
    server: Arc<FakeSlackServer>,
}

struct FakeSlackServer {
    inner: Arc<FakeSlackInner>,
    ending: Arc<AtomicBool>,
}

struct FakeSlackInner {
    state: Mutex<FakeSlackState>,
    held: HeldRequests,
}

/// A request to the API.
#[derive(Clone, Debug)]
pub struct SlackRequest {
    /// The API's method, such as `chat.postMessage`.
    pub method: String,
    pub body: Value,
    /// The error that was answered; empty if it succeeded.
    pub error: String,
}

/// A failure of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlackFault {
    /// No failure: the next planned one hits the request after this one.
    Spared,
    /// 429 with `Retry-After`.
    Limited {
        retry_after: u64,
    },
    Status(u16),
    /// 200 with this error.
    Error(&'static str),
    /// The connection breaks before anything is done.
    DropBefore,
    /// The request is carried out, and the connection breaks before the response.
    DropAfter,
    /// As `DropBefore`, but not before the test releases the request: [`FakeSlack::let_go`].
    HoldBefore,
    /// As `DropAfter`, but not before the test releases the request.
    HoldAfter,
}

impl FakeSlack {
    /// Starts a Slack with the bot and the channels that tests name.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let sockets = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = |listener: &TcpListener| listener.local_addr().expect("an address").to_string();
        let state = FakeSlackState::new(address(&listener), address(&sockets));
        let inner = Arc::new(FakeSlackInner { state: Mutex::new(state), held: HeldRequests::default() });
        let (ending, serving) = (Arc::new(AtomicBool::new(false)), inner.clone());
        http::serve_requests(listener, ending.clone(), move |request| serving.answer_request(request));
        sockets::serve_sockets(sockets, Arc::downgrade(&inner));
        Self { server: Arc::new(FakeSlackServer { inner, ending }) }
    }

    fn inner(&self) -> &FakeSlackInner {
        &self.server.inner
    }

    fn lock_state(&self) -> MutexGuard<'_, FakeSlackState> {
        self.inner().lock_state()
    }

    pub fn api_url(&self) -> String {
        format!("http://{}/api", self.lock_state().address)
    }

    /// Sends events to this address, signed, instead of to sockets.
    pub fn use_webhook(&self, url: &str) {
        self.lock_state().hook = Some(url.to_owned());
    }

    /// Makes the tokens invalid, or valid again.
    pub fn set_tokens_valid(&self, bot: bool, app: bool) {
        let mut state = self.lock_state();
        (state.bot_token_valid, state.app_token_valid) = (bot, app);
    }

    pub fn archive(&self, channel: &str) {
        self.lock_state().archived.push(channel.to_owned());
    }

    /// Removes scopes of the app: these methods answer `missing_scope`.
    pub fn forbid_methods(&self, methods: &[&str]) {
        self.lock_state().forbidden = methods.iter().map(|method| (*method).to_owned()).collect();
    }

    /// Makes the next requests of a method fail; an empty method means any.
    pub fn fail_next(&self, method: &str, times: usize, fault: SlackFault) {
        self.lock_state().faults.push(PlannedFault { method: method.to_owned(), times, fault });
    }

    /// Waits until a request is held; returns false after `patience`.
    pub fn holds_soon(&self, patience: Duration) -> bool {
        self.inner().held.wait_for_held(patience)
    }

    /// Releases all held requests, and removes all planned failures.
    pub fn let_go(&self) {
        self.lock_state().faults.clear();
        self.inner().held.let_go();
    }

    pub fn requests(&self, method: &str) -> Vec<SlackRequest> {
        self.lock_state().requests.iter().filter(|request| request.method == method).cloned().collect()
    }

    /// Returns the number of open sockets.
    pub fn socket_count(&self) -> usize {
        self.lock_state().sockets.len()
    }

    /// Returns the acknowledged envelopes, in order and as often as they were acknowledged.
    pub fn acknowledged(&self) -> Vec<String> {
        self.lock_state().acknowledged.clone()
    }

    /// Returns the number of envelopes that are not acknowledged.
    pub fn unacknowledged_count(&self) -> usize {
        self.lock_state().pending.len()
    }

    /// Sends every event to all sockets from now on.
    pub fn duplicate_events(&self) {
        self.lock_state().duplicates = true;
    }

    /// Breaks one of the connections, without a closing handshake.
    pub fn drop_socket(&self) {
        self.lock_state().end_socket(state::SocketCommand::Drop);
    }

    /// Asks the app to replace one of its connections, as Slack does every few hours.
    pub fn refresh_socket(&self) {
        self.lock_state().end_socket(state::SocketCommand::Disconnect);
    }
}

impl FakeSlackInner {
    fn lock_state(&self) -> MutexGuard<'_, FakeSlackState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FakeSlackServer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        // Wakes the threads that wait for the next connection.
        let (api, sockets) = {
            let state = self.inner.lock_state();
            (state.address.clone(), state.socket_address.clone())
        };
        drop(TcpStream::connect(api));
        drop(TcpStream::connect(sockets));
    }
}
