//! JSON-RPC with a program: one message per line, in both directions.
//!
//! The protocol's own client (the crate `agent-client-protocol`) is not used, only its types. Between
//! reading and handling it queues without bound, so an agent that writes faster than its messages are
//! handled would fill the memory; and it answers any other output of the program with an error message.

use agent_client_protocol_schema::v1::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::process::ChildStdout;

use crate::json_lines::LineReader;

pub struct RpcPeer<'a> {
    lines: LineReader<'a, ChildStdout>,
    to: DuplexStream,
    last_id: u64,
}

/// A message from the program.
pub enum RpcMessage {
    /// The response to a request of ours.
    Answer {
        id: u64,
        answer: Result<Value, Error>,
    },
    /// A request that wants a response with this id.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notice {
        method: String,
        params: Value,
    },
}

/// A line as it was read. Its fields tell the kind of message.
#[derive(Deserialize)]
struct RpcEnvelope {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    error: Option<Value>,
}

impl RpcEnvelope {
    fn into_message(self) -> Option<RpcMessage> {
        match (self.id, self.method, self.error) {
            (Some(id), Some(method), _) => Some(RpcMessage::Request { id, method, params: self.params }),
            (None, Some(method), _) => Some(RpcMessage::Notice { method, params: self.params }),
            (Some(id), None, None) => Some(RpcMessage::Answer { id: id.as_u64()?, answer: Ok(self.result) }),
            (Some(id), None, Some(error)) => {
                let odd = || Error::internal_error().data(error.clone());
                let error = serde_json::from_value(error.clone()).unwrap_or_else(|_| odd());
                Some(RpcMessage::Answer { id: id.as_u64()?, answer: Err(error) })
            }
            (None, None, _) => None,
        }
    }
}

impl<'a> RpcPeer<'a> {
    pub fn new(from: &'a mut ChildStdout, to: DuplexStream) -> Self {
        Self { lines: LineReader::new(from), to, last_id: 0 }
    }

    /// Returns the next message and skips any other output. Cancel safe: a caller that stops waiting loses
    /// no message.
    pub async fn next_message(&mut self) -> Option<RpcMessage> {
        loop {
            let line = self.lines.next_line().await?;
            if let Some(message) = serde_json::from_slice(&line).ok().and_then(RpcEnvelope::into_message) {
                return Some(message);
            }
        }
    }

    /// Sends a request and returns the id that its response will have.
    pub async fn send_request(&mut self, method: &str, params: &impl Serialize) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send_message(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    pub async fn send_notification(&mut self, method: &str, params: &impl Serialize) {
        self.send_message(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub async fn send_response(&mut self, id: &Value, answer: Result<&impl Serialize, Error>) {
        self.send_message(&match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        })
        .await;
    }

    async fn send_message(&mut self, message: &Value) {
        // A program that stopped reading is about to exit; its exit status tells why.
        let _ = self.to.write_all(format!("{message}\n").as_bytes()).await;
    }

    /// Returns the text after the last complete line.
    pub fn unfinished_line(self) -> Option<String> {
        self.lines.unfinished_line()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_message(line: &str) -> Option<RpcMessage> {
        serde_json::from_str(line).ok().and_then(RpcEnvelope::into_message)
    }

    #[test]
    fn what_a_message_is_shows_in_what_it_has() {
        assert!(matches!(
            parse_message(r#"{"id":1,"result":null}"#),
            Some(RpcMessage::Answer { id: 1, answer: Ok(Value::Null) })
        ));
        assert!(matches!(
            parse_message(r#"{"id":1,"error":"odd"}"#),
            Some(RpcMessage::Answer { id: 1, answer: Err(_) })
        ));
        assert!(matches!(parse_message(r#"{"id":0,"method":"a","params":{}}"#), Some(RpcMessage::Request { .. })));
        assert!(matches!(parse_message(r#"{"method":"a","more":1}"#), Some(RpcMessage::Notice { .. })));
        for other in [r#"{"id":"x","result":1}"#, r#"{"id":null}"#, "[]", "17", r#"{"method":1}"#, "Loading…", ""] {
            assert!(parse_message(other).is_none(), "{other}");
        }
    }
}
