//! Server-sent events, as far as ours go: a name and one line of JSON.

use serde::Deserialize;

/// What happened, as far as a conversation cares.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A piece of the answer to a message.
    Delta { message: String, text: String },
    /// What the agent does on the way to it.
    Step { message: String, text: String },
    /// Something new can be read.
    News,
}

#[derive(Deserialize)]
struct Piece {
    message: String,
    text: String,
}

/// Collects bytes until an event is whole.
#[derive(Default)]
pub struct Parser {
    bytes: Vec<u8>,
    name: String,
    data: String,
}

impl Parser {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole event; what is of no interest is skipped.
    pub fn next(&mut self) -> Option<Event> {
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
                        if let Ok(Piece { message, text }) = serde_json::from_str(&data) {
                            return Some(Event::Delta { message, text });
                        }
                    }
                    "step" => {
                        if let Ok(Piece { message, text }) = serde_json::from_str(&data) {
                            return Some(Event::Step { message, text });
                        }
                    }
                    "said" | "lagged" => return Some(Event::News),
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
        let delta = || Event::Delta { message: "m".to_owned(), text: "a\nü".to_owned() };
        for size in [1, 2, 3, 7, 1000] {
            let (mut parser, mut events) = (Parser::default(), Vec::new());
            for piece in stream.as_bytes().chunks(size) {
                parser.push(piece);
                events.extend(std::iter::from_fn(|| parser.next()));
            }
            assert_eq!(events, [delta(), Event::News, Event::News], "{size}");
        }
    }
}
