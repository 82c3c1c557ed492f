//! The gateway of a fake Discord: a real WebSocket with hello, heartbeats, identify, resume and replay.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::state::{FakeDiscordState, FakeSession, GatewayCounts, SocketOrder};
use super::{BOT_TOKEN, FakeDiscord, FakeDiscordInner};

const HEARTBEAT_INTERVAL_MS: u64 = 41_250;
const MESSAGE_CONTENT_INTENT: u64 = 1 << 15;

const AUTHENTICATION_FAILED: u16 = 4004;
const DISALLOWED_INTENTS: u16 = 4014;

/// Serves connections until the returned value is dropped.
pub(super) fn serve_gateway(listener: TcpListener, inner: Arc<FakeDiscordInner>) -> oneshot::Sender<()> {
    let (end, ended) = oneshot::channel();
    listener.set_nonblocking(true).expect("a listener that does not block");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let accept = async {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve_connection(stream, inner.clone()));
                }
            };
            tokio::select! {
                () = accept => {}
                // Dropped.
                _ = ended => {}
            }
        });
    });
    end
}

async fn serve_connection(stream: TcpStream, inner: Arc<FakeDiscordInner>) {
    // A client that disconnects in the middle is no error.
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    inner.lock_state().counts.connections += 1;
    let hello = json!({ "op": 10, "d": { "heartbeat_interval": HEARTBEAT_INTERVAL_MS } });
    if socket.send(Message::text(hello.to_string())).await.is_err() {
        return;
    }
    let (orders, mut ordered) = unbounded_channel();
    follow_connection(&mut socket, &inner, &orders, &mut ordered).await;
    let mut state = inner.lock_state();
    for session in state.sessions.values_mut() {
        session.connection.take_if(|connection| connection.same_channel(&orders));
    }
}

async fn follow_connection(
    socket: &mut WebSocketStream<TcpStream>,
    inner: &FakeDiscordInner,
    orders: &UnboundedSender<SocketOrder>,
    ordered: &mut UnboundedReceiver<SocketOrder>,
) {
    loop {
        tokio::select! {
            received = socket.next() => match received {
                Some(Ok(Message::Text(text))) => {
                    let Ok(message) = serde_json::from_str::<Value>(&text) else { return };
                    inner.lock_state().take_message(&message, orders);
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
            Some(order) = ordered.recv() => {
                let sent = match order {
                    SocketOrder::Send(text) => socket.send(Message::text(text)).await,
                    SocketOrder::Close(code) => {
                        let frame = CloseFrame { code: code.into(), reason: "Closed by the test.".into() };
                        // The client may be gone already.
                        let _ = socket.close(Some(frame)).await;
                        // Waits for the client's answer.
                        while let Some(Ok(_)) = socket.next().await {}
                        return;
                    }
                    SocketOrder::Drop => return,
                };
                if sent.is_err() {
                    return;
                }
            }
        }
    }
}

impl FakeDiscordState {
    /// Handles a message of a client.
    fn take_message(&mut self, message: &Value, orders: &UnboundedSender<SocketOrder>) {
        let data = &message["d"];
        let send = |value: Value| {
            // The connection may have ended.
            let _ = orders.send(SocketOrder::Send(value.to_string()));
        };
        let has_token = data["token"] == format!("Bot {BOT_TOKEN}") && !self.is_revoked;
        match message["op"].as_u64() {
            Some(1) => send(json!({ "op": 11 })),
            Some(2 | 6) if !has_token => drop(orders.send(SocketOrder::Close(AUTHENTICATION_FAILED))),
            Some(2) => {
                let wants_content = data["intents"].as_u64().unwrap_or(0) & MESSAGE_CONTENT_INTENT != 0;
                if wants_content && self.application_flags == 0 {
                    drop(orders.send(SocketOrder::Close(DISALLOWED_INTENTS)));
                    return;
                }
                self.counts.identified += 1;
                let id = format!("session-{}", self.new_id());
                let session = FakeSession { connection: Some(orders.clone()), is_valid: true, events: Vec::new() };
                // The new session gets only its own beginning.
                let others = std::mem::take(&mut self.sessions);
                self.sessions.insert(id.clone(), session);
                let ready = json!({
                    "v": 10, "user": self.bot.to_json(), "guilds": [{ "id": self.guild.to_string(), "unavailable": true }],
                    "session_id": id, "resume_gateway_url": self.gateway_url,
                    "application": { "id": self.application.to_string(), "flags": self.application_flags },
                });
                self.dispatch("READY", &ready);
                self.dispatch("GUILD_CREATE", &self.guild_json());
                self.sessions.extend(others);
            }
            Some(6) => {
                let (seq, again) = (data["seq"].as_u64().unwrap_or(0), self.replayed_twice);
                let known = data["session_id"].as_str().and_then(|id| self.sessions.get_mut(id));
                let Some(session) = known.filter(|session| session.is_valid) else {
                    self.counts.invalidated += 1;
                    send(json!({ "op": 9, "d": false }));
                    return;
                };
                let seen = usize::try_from(seq).expect("few");
                for event in session.events.iter().skip(seen.saturating_sub(again)) {
                    send(event.clone());
                }
                session.connection = Some(orders.clone());
                let resumed = json!({ "op": 0, "t": "RESUMED", "s": session.events.len() + 1, "d": {} });
                send(resumed.clone());
                session.events.push(resumed);
                self.counts.resumed += 1;
            }
            _ => {}
        }
    }

    fn order_all(&self, order: &SocketOrder) {
        for connection in self.sessions.values().filter_map(|session| session.connection.as_ref()) {
            // The connection may have ended.
            let _ = connection.send(order.clone());
        }
    }
}

impl FakeDiscord {
    /// Counts what happened on the gateway.
    pub fn gateway_counts(&self) -> GatewayCounts {
        self.lock_state().counts.clone()
    }

    /// Tells whether a session has a connection.
    pub fn is_connected(&self) -> bool {
        self.lock_state().sessions.values().any(|session| session.is_valid && session.connection.is_some())
    }

    /// Ends all connections without a word. Events from now on wait for the next one.
    pub fn drop_connections(&self) {
        let mut state = self.lock_state();
        state.order_all(&SocketOrder::Drop);
        state.sessions.values_mut().for_each(|session| session.connection = None);
    }

    /// Closes all connections with a code.
    pub fn close_connections(&self, code: u16) {
        let mut state = self.lock_state();
        state.order_all(&SocketOrder::Close(code));
        state.sessions.values_mut().for_each(|session| session.connection = None);
    }

    /// Asks all clients to connect again.
    pub fn ask_to_reconnect(&self) {
        self.lock_state().order_all(&SocketOrder::Send(json!({ "op": 7, "d": null }).to_string()));
    }

    /// Makes all sessions invalid: they cannot be resumed.
    pub fn expire_sessions(&self) {
        self.lock_state().sessions.values_mut().for_each(|session| session.is_valid = false);
    }

    /// Sends a resumed session so many events again that it has already got.
    pub fn replay_twice(&self, events: usize) {
        self.lock_state().replayed_twice = events;
    }

    /// Sends any event.
    pub fn dispatch(&self, kind: &str, payload: &Value) {
        self.lock_state().dispatch(kind, payload);
    }

    /// Sends any text.
    pub fn send_raw(&self, text: &str) {
        self.lock_state().order_all(&SocketOrder::Send(text.to_owned()));
    }
}
