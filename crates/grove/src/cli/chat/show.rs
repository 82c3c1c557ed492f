//! What a person or a script sees of a conversation.

use owo_colors::OwoColorize;
use serde_json::json;

use super::client::Line;
use crate::output;

pub enum Show {
    /// The answer as it is made; words on the way are dimmed.
    Terminal { streamed: String },
    /// Answers on the standard output, all else on the other.
    Plain,
    /// A line of JSON for everything that is said.
    Json { conversation: String, message: String },
}

impl Show {
    pub fn new(json: bool, on_terminal: bool) -> Self {
        match (json, on_terminal) {
            (true, _) => Show::Json { conversation: String::new(), message: String::new() },
            (false, true) => Show::Terminal { streamed: String::new() },
            (false, false) => Show::Plain,
        }
    }

    /// A message was sent.
    pub fn begin(&mut self, in_conversation: &str, with_id: &str) {
        match self {
            Show::Terminal { streamed } => streamed.clear(),
            Show::Plain => {}
            Show::Json { conversation, message } => {
                *conversation = in_conversation.to_owned();
                *message = with_id.to_owned();
            }
        }
    }

    pub fn notice(&self, line: &Line) {
        match self {
            Show::Terminal { .. } => anstream::eprintln!("{}", printable(&line.message).dimmed()),
            Show::Plain => anstream::eprintln!("{}", line.message),
            Show::Json { conversation, message } => in_json(conversation, message, line, None),
        }
    }

    /// A piece of the answer.
    pub fn delta(&mut self, text: &str) {
        if let Show::Terminal { streamed } = self {
            streamed.push_str(text);
            output::raw(printable(text).as_bytes());
        }
    }

    /// What the agent does on the way, for people who watch.
    pub fn step(&self, text: &str) {
        if let Show::Terminal { .. } = self {
            anstream::eprintln!("{}", format!("· {}", printable(text)).dimmed());
        }
    }

    pub fn answer(&self, line: &Line, status: &str) {
        match self {
            Show::Terminal { streamed } => {
                let rest = remainder(streamed, &line.message);
                if !rest.is_empty() {
                    output::line(&printable(rest));
                }
            }
            Show::Plain => output::raw(format!("{}\n", line.message).as_bytes()),
            Show::Json { conversation, message } => in_json(conversation, message, line, Some(status)),
        }
    }
}

fn in_json(conversation: &str, id: &str, line: &Line, status: Option<&str>) {
    let mut value = json!({
        "type": line.kind,
        "conversationId": conversation,
        "messageId": id,
        "message": line.message,
        "timestamp": line.timestamp,
    });
    if let Some(status) = status {
        value["status"] = json!(status);
    }
    output::line(&value.to_string());
}

/// What of an answer was not shown yet. The stream has whole lines only, and the answer loses white
/// space at its end; where the two differ otherwise, the answer is what counts.
fn remainder<'a>(streamed: &str, answer: &'a str) -> &'a str {
    if let Some(rest) = answer.strip_prefix(streamed) {
        return rest;
    }
    match answer.strip_prefix(streamed.trim_end()) {
        Some(rest) if rest.starts_with('\n') || rest.is_empty() => rest.trim_start_matches('\n'),
        _ => answer,
    }
}

/// An agent's words must not steer the terminal.
fn printable(text: &str) -> String {
    let plain = anstream::adapter::strip_str(text).to_string();
    plain.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_shown_twice_and_nothing_is_left_out() {
        for (streamed, answer, rest) in [
            ("", "hello", "hello"),
            ("hello\n", "hello", ""),
            ("hello\n\n\n", "hello", ""),
            ("one\n", "one\ntwo", "two"),
            ("begun\n", "begun\n\nStopped.", "\nStopped."),
            ("begun\n\n\n", "begun\n\nStopped.", "Stopped."),
            ("early\n", "late", "late"),
            ("one\n", "ones", "ones"),
            ("lost\n", "(The first 3 bytes are left out.)\nt", "(The first 3 bytes are left out.)\nt"),
        ] {
            assert_eq!(remainder(streamed, answer), rest, "{streamed:?} {answer:?}");
        }
    }

    #[test]
    fn an_agent_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2J\x1b]0;title\x07b\x08\x1bc\tü\n\u{9b}1mx"), "ab\tü\n1mx");
    }
}
