//! Prints a conversation for a person or a script.

use owo_colors::OwoColorize;
use serde_json::json;

use super::client::ChatLine;
use crate::output;

pub enum ChatOutput {
    /// The answer as it is made; notices are dimmed.
    Terminal { streamed: String },
    /// Answers on the standard output, everything else on the standard error.
    Plain,
    /// One line of JSON for every message.
    Json { conversation: String, message: String },
}

impl ChatOutput {
    pub fn new(json: bool, on_terminal: bool) -> Self {
        match (json, on_terminal) {
            (true, _) => ChatOutput::Json { conversation: String::new(), message: String::new() },
            (false, true) => ChatOutput::Terminal { streamed: String::new() },
            (false, false) => ChatOutput::Plain,
        }
    }

    /// Notes that a message was sent.
    pub fn begin_message(&mut self, in_conversation: &str, with_id: &str) {
        match self {
            ChatOutput::Terminal { streamed } => streamed.clear(),
            ChatOutput::Plain => {}
            ChatOutput::Json { conversation, message } => {
                *conversation = in_conversation.to_owned();
                *message = with_id.to_owned();
            }
        }
    }

    pub fn show_notice(&self, line: &ChatLine) {
        match self {
            ChatOutput::Terminal { .. } => anstream::eprintln!("{}", strip_control_characters(&line.message).dimmed()),
            ChatOutput::Plain => anstream::eprintln!("{}", line.message),
            ChatOutput::Json { conversation, message } => in_json(conversation, message, line, None),
        }
    }

    /// Shows a piece of the answer.
    pub fn show_delta(&mut self, text: &str) {
        if let ChatOutput::Terminal { streamed } = self {
            streamed.push_str(text);
            output::print_bytes(strip_control_characters(text).as_bytes());
        }
    }

    /// Shows the agent's current step to people who watch.
    pub fn show_step(&self, text: &str) {
        if let ChatOutput::Terminal { .. } = self {
            anstream::eprintln!("{}", format!("· {}", strip_control_characters(text)).dimmed());
        }
    }

    pub fn show_answer(&self, line: &ChatLine, status: &str) {
        match self {
            ChatOutput::Terminal { streamed } => {
                let rest = unshown_rest(streamed, &line.message);
                if !rest.is_empty() {
                    output::print_line(&strip_control_characters(rest));
                }
            }
            ChatOutput::Plain => output::print_bytes(format!("{}\n", line.message).as_bytes()),
            ChatOutput::Json { conversation, message } => in_json(conversation, message, line, Some(status)),
        }
    }
}

fn in_json(conversation: &str, id: &str, line: &ChatLine, status: Option<&str>) {
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
    output::print_line(&value.to_string());
}

/// Returns the part of an answer that was not shown yet. The stream has whole lines only, and the answer
/// loses white space at its end; where the two differ otherwise, the answer counts.
fn unshown_rest<'a>(streamed: &str, answer: &'a str) -> &'a str {
    if let Some(rest) = answer.strip_prefix(streamed) {
        return rest;
    }
    match answer.strip_prefix(streamed.trim_end()) {
        Some(rest) if rest.starts_with('\n') || rest.is_empty() => rest.trim_start_matches('\n'),
        _ => answer,
    }
}

/// Removes control characters: an agent's text must not control the terminal.
fn strip_control_characters(text: &str) -> String {
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
            assert_eq!(unshown_rest(streamed, answer), rest, "{streamed:?} {answer:?}");
        }
    }

    #[test]
    fn an_agent_cannot_steer_the_terminal() {
        assert_eq!(strip_control_characters("a\x1b[2J\x1b]0;title\x07b\x08\x1bc\tü\n\u{9b}1mx"), "ab\tü\n1mx");
    }
}
