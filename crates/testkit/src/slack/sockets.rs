//! Socket Mode: a WebSocket for each ticket, a hello, and envelopes that the app acknowledges.

use std::net::TcpListener;
use std::sync::Weak;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc::unbounded_channel;
use tokio_tungstenite::tungstenite::Message;

use super::FakeSlackInner;
use super::state::SocketCommand;

/// Serves sockets until the fake is gone.
pub fn serve_sockets(listener: TcpListener, slack: Weak<FakeSlackInner>) {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            listener.set_nonblocking(true).expect("a listener");
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                if slack.strong_count() == 0 {
                    return;
                }
                tokio::spawn(serve_socket(stream, slack.clone()));
            }
        });
    });
}

async fn serve_socket(stream: TcpStream, slack: Weak<FakeSlackInner>) {
    let Some(ticket) = peek_ticket(&stream).await else { return };
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    let (commands, mut orders) = unbounded_channel();
    let id = {
        let Some(slack) = slack.upgrade() else { return };
        let mut state = slack.lock_state();
        let known = state.tickets.iter().position(|known| *known == ticket);
        let Some(known) = known else { return };
        // A ticket is good for one connection.
        state.tickets.remove(known);
        let id = state.new_id();
        let hello = json!({
            "type": "hello", "num_connections": state.sockets.len() + 1, "connection_info": { "app_id": "A1" },
            "debug_info": { "host": "fake", "approximate_connection_time": 18060 }, "new_field": true,
        });
        let _ = commands.send(SocketCommand::Send(hello.to_string()));
        state.sockets.insert(id, commands);
        state.send_pending();
        id
    };
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(SocketCommand::Send(frame)) => {
                    if socket.send(Message::text(frame)).await.is_err() {
                        break;
                    }
                }
                Some(SocketCommand::Disconnect) => {
                    let frame = json!({ "type": "disconnect", "reason": "refresh_requested", "debug_info": { "host": "fake" } });
                    let _ = socket.send(Message::text(frame.to_string())).await;
                    // The app closes it; what it still acknowledges counts.
                }
                Some(SocketCommand::Drop) | None => break,
            },
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).unwrap_or_default();
                    if let (Some(envelope), Some(slack)) = (frame["envelope_id"].as_str(), slack.upgrade()) {
                        slack.lock_state().acknowledge(envelope);
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => {}
            },
        }
    }
    if let Some(slack) = slack.upgrade() {
        slack.lock_state().forget_socket(id);
    }
}

/// Reads the ticket in the first line of the request, which stays unread.
async fn peek_ticket(stream: &TcpStream) -> Option<String> {
    let mut start = [0; 512];
    let length = stream.peek(&mut start).await.ok()?;
    let request = String::from_utf8_lossy(&start[..length]).into_owned();
    let ticket = request.lines().next()?.split_once("ticket=")?.1;
    Some(ticket.split_whitespace().next()?.to_owned())
}
