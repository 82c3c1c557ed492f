//! Parses server-sent events in the form that our server sends: a name and one line of JSON.

use serde::Deserialize;

/// An event that concerns a conversation.
#[derive(Debug, PartialEq, Eq)]
pub enum ChatEvent {
    /// A piece of the answer to a message.
    Delta { message: String, text: String },
    /// A step of the agent on the way to the answer.
    Step { message: String, text: String },
    /// The progress of what the message waits for.
    Progress { message: String, text: String },
    /// There are new lines to read.
    News,
}

#[derive(Deserialize)]
struct EventPayload {
    message: String,
    text: String,
}

/// Collects bytes until an event is complete.
#[derive(Default)]
pub struct SseParser {
    bytes: Vec<u8>,
    name: String,
    data: String,
}

impl SseParser {
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete event; skips events that do not concern a conversation.
    pub fn next_event(&mut self) -> Option<ChatEvent> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if let Some(name) = line.strip_prefix("event:") {
                self.name = name.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data:") {
                self.data = data.trim_start().to_owned();
            } else if line.is_empty() {
                let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
                match name.as_str() {
                    "delta" => {
                        if let Ok(EventPayload { message, text }) = serde_json::from_str(&data) {
                            return Some(ChatEvent::Delta { message, text });
                        }
                    }
                    "step" => {
                        if let Ok(EventPayload { message, text }) = serde_json::from_str(&data) {
                            return Some(ChatEvent::Step { message, text });
                        }
                    }
                    "progress" => {
                        if let Ok(EventPayload { message, text }) = serde_json::from_str(&data) {
                            return Some(ChatEvent::Progress { message, text });
                        }
                    }
                    "said" | "lagged" => return Some(ChatEvent::News),
                    _ => {}
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_any_pieces() {
        let stream = ": hello\n\nevent: heard\ndata: {}\n\nevent: delta\ndata: {\"message\":\"m\",\"text\":\"a\\nü\"}\n\n\
                      event: delta\ndata: nonsense\n\nevent: said\r\ndata: {}\r\n\r\nevent: lagged\ndata: {}\n\n";
        let delta = || ChatEvent::Delta { message: "m".to_owned(), text: "a\nü".to_owned() };
        for size in [1, 2, 3, 7, 1000] {
            let (mut parser, mut events) = (SseParser::default(), Vec::new());
            for piece in stream.as_bytes().chunks(size) {
                parser.push_bytes(piece);
                events.extend(std::iter::from_fn(|| parser.next_event()));
            }
            assert_eq!(events, [delta(), ChatEvent::News, ChatEvent::News], "{size}");
        }
    }
}
