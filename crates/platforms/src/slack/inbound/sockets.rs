//! Socket Mode: Slack sends events over WebSockets that we open, for installations without a public address.
//!
//! Two sockets are open at once, and Slack sends each event to either of them. An envelope is acknowledged when
//! its event is in the store; Slack sends it again otherwise. slack-morphism has a listener for this, which is
//! not used: it acknowledges what it cannot parse, connects again at a fixed pace whatever Slack answers, and
//! does not tell why a connection failed.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt};
use grove_conversations::backoff::{Backoff, RETRY_BACKOFF};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::retry::{ChatApiError, RetryAdvice};
use crate::slack::adapter::SlackAdapter;
use crate::slack::api::SlackApi;
use crate::webhook::WebhookError;

/// The number of sockets: while Slack replaces one of them, events arrive on the other.
const SOCKET_COUNT: usize = 2;
/// The time to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval of our pings.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// A socket that was silent for so long is dead; Slack answers pings.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// The pauses before a socket is opened again that Slack closed before it delivered anything.
const REOPEN_BACKOFF: Backoff = Backoff { shortest: Duration::from_millis(200), longest: Duration::from_secs(60) };

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The reason why a socket ended.
#[derive(Debug, thiserror::Error)]
enum SocketError {
    #[error(transparent)]
    Api(#[from] ChatApiError),
    #[error("Slack's socket cannot be opened: {0}")]
    NotOpened(String),
    #[error("Slack's socket was closed")]
    Closed,
}

/// Keeps the sockets open until `ending` is set.
pub(crate) async fn run_sockets(adapter: &SlackAdapter, api: &SlackApi, ending: &watch::Receiver<bool>) {
    if adapter.settings.app_token.is_some() {
        join_all((0..SOCKET_COUNT).map(|number| keep_socket(adapter, api, number, ending.clone()))).await;
    }
}

async fn keep_socket(adapter: &SlackAdapter, api: &SlackApi, number: usize, mut ending: watch::Receiver<bool>) {
    let mut failures = 0;
    while !*ending.borrow_and_update() {
        let mut has_delivered = false;
        let ended = tokio::select! {
            ended = serve_socket(adapter, api, number, &mut has_delivered) => ended,
            _ = ending.changed() => break,
        };
        if has_delivered {
            failures = 0;
        }
        let pause = reopen_delay(&ended, failures);
        failures += 1;
        if let Err(error) = ended {
            adapter.health.socket_failed(number, &error.to_string());
            tracing::info!(socket = number, %error, pause_ms = pause.as_millis(), "Slack socket ended");
            // A socket that was closed is opened again at once, which is no failure yet.
            if !matches!(error, SocketError::Closed) || failures > 3 {
                adapter.report_health().await;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = ending.changed() => {}
        }
    }
}

/// Returns the pause before a socket is opened again.
fn reopen_delay(ended: &Result<(), SocketError>, failures: i64) -> Duration {
    match ended {
        Ok(()) | Err(SocketError::Closed) => match failures {
            0 => Duration::ZERO,
            failures => REOPEN_BACKOFF.delay_after(failures - 1),
        },
        Err(SocketError::NotOpened(_)) => REOPEN_BACKOFF.delay_after(failures),
        Err(SocketError::Api(error)) => match error.retry_advice() {
            RetryAdvice::After(wait) => wait,
            RetryAdvice::Later | RetryAdvice::Never => RETRY_BACKOFF.delay_after(failures),
        },
    }
}

/// Opens a socket and stores what it delivers, until it ends. It is fine if Slack announces the end.
async fn serve_socket(
    adapter: &SlackAdapter,
    api: &SlackApi,
    number: usize,
    has_delivered: &mut bool,
) -> Result<(), SocketError> {
    let Some(url) = api.open_socket().await? else { return Err(SocketError::NotOpened("no app token".to_owned())) };
    let opening = timeout(CONNECT_TIMEOUT, tokio_tungstenite::connect_async(&url));
    let mut socket = match opening.await {
        Ok(Ok((socket, _))) => socket,
        // The address contains a ticket, so the error is shown without it.
        Ok(Err(error)) => return Err(SocketError::NotOpened(describe_error(&error))),
        Err(_) => return Err(SocketError::NotOpened("no response in time".to_owned())),
    };
    let (mut ping, mut heard) = (tokio::time::interval(PING_INTERVAL), Instant::now());
    loop {
        let message = tokio::select! {
            message = socket.next() => message,
            _ = ping.tick() => {
                if heard.elapsed() > SILENCE_TIMEOUT || socket.send(Message::Ping(Vec::new().into())).await.is_err() {
                    return Err(SocketError::Closed);
                }
                continue;
            }
        };
        heard = Instant::now();
        let frame = match message {
            Some(Ok(Message::Text(frame))) => frame,
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(SocketError::Closed),
            Some(Ok(_)) => continue,
        };
        let Ok(frame) = serde_json::from_str::<Value>(&frame) else { continue };
        match frame["type"].as_str() {
            Some("hello") => {
                adapter.health.socket_opened(number);
                adapter.report_health().await;
            }
            Some("disconnect") => return Ok(()),
            _ => {
                take_envelope(adapter, &mut socket, frame).await?;
                *has_delivered = true;
            }
        }
    }
}

/// Stores the event of an envelope and acknowledges it.
async fn take_envelope(adapter: &SlackAdapter, socket: &mut Socket, mut envelope: Value) -> Result<(), SocketError> {
    let Some(id) = envelope["envelope_id"].as_str().map(str::to_owned) else { return Ok(()) };
    match adapter.store_payload(envelope["payload"].take()).await {
        Ok(_) => {}
        // Slack sends it again.
        Err(WebhookError::Store(error)) => {
            tracing::warn!(envelope = id, %error, "event not stored");
            return Ok(());
        }
        Err(error) => tracing::info!(envelope = id, %error, "envelope ignored"),
    }
    let acknowledgement = json!({ "envelope_id": id }).to_string();
    socket.send(Message::text(acknowledgement)).await.map_err(|_| SocketError::Closed)
}

fn describe_error(error: &tungstenite::Error) -> String {
    match error {
        tungstenite::Error::Http(response) => format!("status {}", response.status().as_u16()),
        tungstenite::Error::Io(error) => error.to_string(),
        tungstenite::Error::Tls(error) => error.to_string(),
        _ => "the connection failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_opened_again_at_once_but_not_again_and_again() {
        let closed = || Err(SocketError::Closed);
        let pauses = [0, 1, 2, 3, 20].map(|failures| reopen_delay(&closed(), failures).as_millis());
        assert_eq!(pauses, [0, 200, 400, 800, 60_000]);
        let refused = Err(ChatApiError::BadCredentials { platform: "Slack", what: "invalid_auth".to_owned() }.into());
        let pauses = [0, 1, 20].map(|failures| reopen_delay(&refused, failures).as_secs());
        assert_eq!(pauses, [2, 4, 300]);
        let limited = Err(ChatApiError::Limited { platform: "Slack", wait: Duration::from_secs(30) }.into());
        assert_eq!(reopen_delay(&limited, 0).as_secs(), 30);
    }
}
