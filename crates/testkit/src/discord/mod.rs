//! A fake Discord for tests: its REST API and its gateway, on loopback, with state.
//!
//! People act in it by name: `discord.say("alice", general, "hello")`. Their actions are sent to the sessions
//! of the gateway, and so are the bot's own. A session that lost its connection keeps its events, and replays
//! them when it is resumed.

mod gateway;
mod json;
mod people;
mod rest;
mod state;

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::github::faults::HeldRequests;
use crate::github::http;
pub use people::MessageView;
pub use state::InteractionView;
use state::{FakeChannel, FakeDiscordState, FakeUser, PlannedFault};

/// A fake Discord with one server. Clones share it.
#[derive(Clone)]
pub struct FakeDiscord {
    server: Arc<FakeServer>,
}

struct FakeServer {
    inner: Arc<FakeDiscordInner>,
    ending: Arc<AtomicBool>,
    /// Ends the gateway when it is dropped.
    _gateway: tokio::sync::oneshot::Sender<()>,
}

struct FakeDiscordInner {
    state: Mutex<FakeDiscordState>,
    held: HeldRequests,
}

/// A request to the REST API.
#[derive(Clone, Debug)]
pub struct DiscordRequest {
    pub method: String,
    /// Behind `/api/v10`.
    pub path: String,
    /// 0 if the connection was dropped before anything was done.
    pub status: u16,
    pub body: Value,
}

/// A failure of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum DiscordFault {
    /// No failure: the next planned one hits the request after this one.
    Spared,
    /// 429 of the endpoint's own bucket.
    Limited {
        seconds: f64,
    },
    /// 429 for all requests.
    GloballyLimited {
        seconds: f64,
    },
    Status(u16),
    /// The connection breaks before anything is done.
    DropBefore,
    /// The request is carried out, and the connection breaks before the response.
    DropAfter,
    /// As `DropBefore`, but not before the test releases the request: [`FakeDiscord::let_go`].
    HoldBefore,
    /// As `DropAfter`, but not before the test releases the request.
    HoldAfter,
}

/// The account of the bot.
pub const BOT_NAME: &str = "grove";
/// The token of the bot.
pub const BOT_TOKEN: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcdE.fake-token-of-the-test-discord-bot00";

impl FakeDiscord {
    /// Starts a Discord with one server and the channel `general`.
    pub fn start() -> Self {
        let rest = TcpListener::bind("127.0.0.1:0").expect("a port");
        let sockets = TcpListener::bind("127.0.0.1:0").expect("a port");
        let api_url = format!("http://{}", rest.local_addr().expect("an address"));
        let gateway_url = format!("ws://{}", sockets.local_addr().expect("an address"));
        let inner = Arc::new(FakeDiscordInner {
            state: Mutex::new(FakeDiscordState::new(api_url, gateway_url)),
            held: HeldRequests::default(),
        });
        let (ending, serving) = (Arc::new(AtomicBool::new(false)), inner.clone());
        http::serve_requests(rest, ending.clone(), move |request| serving.answer_request(request));
        let gateway = gateway::serve_gateway(sockets, inner.clone());
        let discord = Self { server: Arc::new(FakeServer { inner, ending, _gateway: gateway }) };
        discord.add_channel("general");
        discord
    }

    fn inner(&self) -> &FakeDiscordInner {
        &self.server.inner
    }

    fn lock_state(&self) -> MutexGuard<'_, FakeDiscordState> {
        self.inner().lock_state()
    }

    /// Returns the root of the REST API.
    pub fn api_url(&self) -> String {
        self.lock_state().api_url.clone()
    }

    pub fn gateway_url(&self) -> String {
        self.lock_state().gateway_url.clone()
    }

    pub fn bot_id(&self) -> u64 {
        self.lock_state().bot.id
    }

    /// Returns the text that mentions the bot.
    pub fn mention(&self) -> String {
        format!("<@{}>", self.bot_id())
    }

    pub fn add_user(&self, name: &str) -> u64 {
        let mut state = self.lock_state();
        let id = state.new_id();
        state.users.insert(name.to_owned(), FakeUser { id, name: name.to_owned(), is_bot: false });
        id
    }

    #[track_caller]
    pub fn user_id(&self, name: &str) -> u64 {
        self.lock_state().user(name).id
    }

    /// Adds another bot.
    pub fn add_bot(&self, name: &str) -> u64 {
        let id = self.add_user(name);
        self.lock_state().users.get_mut(name).expect("the bot").is_bot = true;
        id
    }

    pub fn add_channel(&self, name: &str) -> u64 {
        let mut state = self.lock_state();
        let id = state.new_id();
        state.channels.insert(id, FakeChannel::new(id, name, 0));
        id
    }

    /// Returns the id of a channel.
    #[track_caller]
    pub fn channel(&self, name: &str) -> u64 {
        let state = self.lock_state();
        state.channels.values().find(|channel| channel.name == name).expect("a channel").id
    }

    /// Makes Discord refuse threads in a channel.
    pub fn forbid_threads(&self, channel: u64) {
        self.lock_state().channel_mut(channel).forbids_threads = true;
    }

    /// Switches the message content intent of the application off.
    pub fn forbid_message_content(&self) {
        self.lock_state().application_flags = 0;
    }

    /// Makes the token invalid, for requests and for new connections.
    pub fn revoke_token(&self) {
        self.lock_state().is_revoked = true;
    }

    /// Limits the requests of one kind in one channel: so many in so many seconds.
    pub fn limit_channels(&self, requests: u32, seconds: f64) {
        self.lock_state().channel_limit = Some((requests, Duration::from_secs_f64(seconds)));
    }

    /// Forgets which messages were sent with which nonce, as Discord does after some minutes.
    pub fn forget_nonces(&self) {
        self.lock_state().messages.values_mut().for_each(|message| message.nonce = None);
    }

    /// Makes the next requests with this method fail whose path contains `path`.
    pub fn fail_next_of(&self, method: &str, path: &str, times: usize, fault: DiscordFault) {
        self.lock_state().faults.push(PlannedFault { method: method.to_owned(), path: path.to_owned(), times, fault });
    }

    /// Waits until a request is held; returns false after `patience`.
    pub fn holds_soon(&self, patience: Duration) -> bool {
        self.inner().held.wait_for_held(patience)
    }

    /// Releases all held requests.
    pub fn let_go(&self) {
        self.inner().held.let_go();
    }

    /// Returns the requests so far.
    pub fn received_requests(&self) -> Vec<DiscordRequest> {
        self.lock_state().requests.clone()
    }

    /// Counts the requests with this method whose path contains `path`.
    pub fn count_requests(&self, method: &str, path: &str) -> usize {
        self.lock_state().requests.iter().filter(|asked| asked.method == method && asked.path.contains(path)).count()
    }

    /// Returns the accounts that were pinged by the bot, and `@everyone`.
    pub fn pings(&self) -> Vec<String> {
        self.lock_state().pings.clone()
    }

    /// Returns the registered slash commands.
    pub fn commands(&self) -> Vec<Value> {
        self.lock_state().commands.clone()
    }
}

impl FakeDiscordInner {
    fn lock_state(&self) -> MutexGuard<'_, FakeDiscordState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for the next connection.
        let address = self.inner.lock_state().api_url.trim_start_matches("http://").to_owned();
        drop(TcpStream::connect(address));
    }
}
