//! Prints a conversation for a person or a script.

use grove_conversations::replies::SILENT_ANSWER;
use grove_model::MessageStatus;
use owo_colors::OwoColorize;
use serde_json::json;

use super::client::ChatLine;
use super::markdown::MarkdownLines;
use crate::output;

pub enum ChatOutput {
    /// The answer as it is made; notices are dimmed.
    Terminal(TerminalAnswer),
    /// Answers on the standard output, everything else on the standard error.
    Plain,
    /// One line of JSON for every message.
    Json { conversation: String, message: String },
}

/// The answer to a message, as far as a person has seen it.
#[derive(Default)]
pub struct TerminalAnswer {
    streamed: String,
    /// A line that has no end yet, and is not shown.
    pending: String,
    /// Answers are Markdown, and not the output of a shell.
    is_markdown: bool,
    lines: MarkdownLines,
    /// The last line shows the progress, and is overwritten by what comes next.
    shows_progress: bool,
}

impl TerminalAnswer {
    fn show_progress(&mut self, text: &str) {
        self.clear_progress();
        anstream::eprint!("{}", strip_control_characters(text).dimmed());
        self.shows_progress = true;
    }

    fn clear_progress(&mut self) {
        if std::mem::take(&mut self.shows_progress) {
            anstream::eprint!("\r\x1b[2K");
        }
    }

    fn show_delta(&mut self, text: &str) {
        self.clear_progress();
        if !self.is_markdown {
            self.streamed.push_str(text);
            output::print_bytes(strip_control_characters(text).as_bytes());
            return;
        }
        self.pending.push_str(text);
        while let Some(end) = self.pending.find('\n') {
            let rest = self.pending.split_off(end + 1);
            let line = std::mem::replace(&mut self.pending, rest);
            self.streamed.push_str(&line);
            self.print_line(line.trim_end_matches('\n'));
        }
    }

    fn show_rest(&mut self, answer: &str) {
        self.clear_progress();
        let rest = unshown_rest(&self.streamed, answer);
        if rest.len() == answer.len() {
            self.lines = MarkdownLines::default();
        }
        if !rest.is_empty() {
            rest.split('\n').for_each(|line| self.print_line(line));
        }
    }

    fn print_line(&mut self, line: &str) {
        let plain = strip_control_characters(line);
        output::print_line(&if self.is_markdown { self.lines.render_line(&plain) } else { plain });
    }
}

impl ChatOutput {
    pub fn new(json: bool, on_terminal: bool) -> Self {
        match (json, on_terminal) {
            (true, _) => ChatOutput::Json { conversation: String::new(), message: String::new() },
            (false, true) => ChatOutput::Terminal(TerminalAnswer::default()),
            (false, false) => ChatOutput::Plain,
        }
    }

    /// Notes that a message was sent.
    pub fn begin_message(&mut self, in_conversation: &str, with_id: &str) {
        match self {
            ChatOutput::Terminal(answer) => *answer = TerminalAnswer::default(),
            ChatOutput::Plain => {}
            ChatOutput::Json { conversation, message } => {
                *conversation = in_conversation.to_owned();
                *message = with_id.to_owned();
            }
        }
    }

    /// Notes whether the answer is Markdown.
    pub fn expect_markdown(&mut self, is_markdown: bool) {
        if let ChatOutput::Terminal(answer) = self {
            answer.is_markdown = is_markdown;
        }
    }

    pub fn show_notice(&mut self, line: &ChatLine) {
        match self {
            ChatOutput::Terminal(answer) => {
                answer.clear_progress();
                anstream::eprintln!("{}", strip_control_characters(&line.message).dimmed());
            }
            ChatOutput::Plain => anstream::eprintln!("{}", line.message),
            ChatOutput::Json { conversation, message } => in_json(conversation, message, line, None),
        }
    }

    /// Shows a piece of the answer.
    pub fn show_delta(&mut self, text: &str) {
        if let ChatOutput::Terminal(answer) = self {
            answer.show_delta(text);
        }
    }

    /// Shows the agent's current step to people who watch.
    pub fn show_step(&mut self, text: &str) {
        if let ChatOutput::Terminal(answer) = self {
            answer.clear_progress();
            anstream::eprintln!("{}", format!("· {}", strip_control_characters(text)).dimmed());
        }
    }

    /// Shows how far a clone, fetch or checkout is, in one line.
    pub fn show_progress(&mut self, text: &str) {
        if let ChatOutput::Terminal(answer) = self {
            answer.show_progress(text);
        }
    }

    pub fn show_answer(&mut self, line: &ChatLine, status: Option<MessageStatus>) {
        match self {
            // The sentence is not a part of the output that a script asked for.
            ChatOutput::Terminal(_) | ChatOutput::Plain if line.message == SILENT_ANSWER => self.show_notice(line),
            ChatOutput::Terminal(answer) => answer.show_rest(&line.message),
            ChatOutput::Plain => output::print_bytes(format!("{}\n", line.message).as_bytes()),
            ChatOutput::Json { conversation, message } => in_json(conversation, message, line, status),
        }
    }
}

fn in_json(conversation: &str, id: &str, line: &ChatLine, status: Option<MessageStatus>) {
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
