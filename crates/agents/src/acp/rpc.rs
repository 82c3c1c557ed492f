//! JSON-RPC with a program: a message in each line, either way.
//!
//! The protocol's own client (the crate `agent-client-protocol`) is not used, only its types: between
//! reading and handling it queues without bound, so that an agent which talks faster than anybody
//! listens would fill the memory, and it answers whatever else a program prints with an error message.

use agent_client_protocol_schema::v1::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::process::ChildStdout;

use crate::json_lines::Lines;

pub struct Peer<'a> {
    lines: Lines<'a, ChildStdout>,
    to: DuplexStream,
    last_id: u64,
}

/// What a program said.
pub enum Message {
    /// The answer to a request of ours.
    Answer {
        id: u64,
        answer: Result<Value, Error>,
    },
    /// It wants an answer under this name.
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

/// A line as it comes. What a message is shows in what it has.
#[derive(Deserialize)]
struct Envelope {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    error: Option<Value>,
}

impl Envelope {
    fn message(self) -> Option<Message> {
        match (self.id, self.method, self.error) {
            (Some(id), Some(method), _) => Some(Message::Request { id, method, params: self.params }),
            (None, Some(method), _) => Some(Message::Notice { method, params: self.params }),
            (Some(id), None, None) => Some(Message::Answer { id: id.as_u64()?, answer: Ok(self.result) }),
            (Some(id), None, Some(error)) => {
                let odd = || Error::internal_error().data(error.clone());
                let error = serde_json::from_value(error.clone()).unwrap_or_else(|_| odd());
                Some(Message::Answer { id: id.as_u64()?, answer: Err(error) })
            }
            (None, None, _) => None,
        }
    }
}

impl<'a> Peer<'a> {
    pub fn new(from: &'a mut ChildStdout, to: DuplexStream) -> Self {
        Self { lines: Lines::new(from), to, last_id: 0 }
    }

    /// The next message; whatever else is printed in between is skipped. Whoever stops waiting for it
    /// misses nothing.
    pub async fn next(&mut self) -> Option<Message> {
        loop {
            let line = self.lines.next().await?;
            if let Some(message) = serde_json::from_slice(&line).ok().and_then(Envelope::message) {
                return Some(message);
            }
        }
    }

    /// Asks for something; the answer has this name.
    pub async fn request(&mut self, method: &str, params: &impl Serialize) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    pub async fn notify(&mut self, method: &str, params: &impl Serialize) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub async fn answer(&mut self, id: &Value, answer: Result<&impl Serialize, Error>) {
        self.send(&match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        })
        .await;
    }

    async fn send(&mut self, message: &Value) {
        // A program that does not read any more ends, and how is told by its status.
        let _ = self.to.write_all(format!("{message}\n").as_bytes()).await;
    }

    /// What stands behind the last whole line.
    pub fn rest(self) -> Option<String> {
        self.lines.rest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> Option<Message> {
        serde_json::from_str(line).ok().and_then(Envelope::message)
    }

    #[test]
    fn what_a_message_is_shows_in_what_it_has() {
        assert!(matches!(
            message(r#"{"id":1,"result":null}"#),
            Some(Message::Answer { id: 1, answer: Ok(Value::Null) })
        ));
        assert!(matches!(message(r#"{"id":1,"error":"odd"}"#), Some(Message::Answer { id: 1, answer: Err(_) })));
        assert!(matches!(message(r#"{"id":0,"method":"a","params":{}}"#), Some(Message::Request { .. })));
        assert!(matches!(message(r#"{"method":"a","more":1}"#), Some(Message::Notice { .. })));
        for other in [r#"{"id":"x","result":1}"#, r#"{"id":null}"#, "[]", "17", r#"{"method":1}"#, "Loading…", ""] {
            assert!(message(other).is_none(), "{other}");
        }
    }
}
