//! What was heard of an agent: its text, what it took, and how it says that it ended.

use grove_environments::redact::Redactor;

use crate::agent::{AgentEvent, Ended, KEPT, Outcome, Usage};
use crate::process::Exit;
use crate::tail::Tail;

/// How an agent itself says that a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Well,
    Failed(String),
    NoSession,
    OverBudget,
}

pub(super) struct Heard {
    text: Tail,
    /// Something was said before.
    any: bool,
    /// In the middle of a text of which pieces were heard.
    open: bool,
    pub usage: Usage,
    pub verdict: Option<Verdict>,
    /// The program ended in the middle of a line, which was this.
    pub half_a_line: Option<String>,
}

impl Heard {
    pub fn new() -> Self {
        let (text, usage) = (Tail::new(KEPT), Usage::default());
        Self { text, any: false, open: false, usage, verdict: None, half_a_line: None }
    }

    /// Whether nothing was said so far.
    pub fn is_silent(&self) -> bool {
        !self.any
    }

    /// Keeps what an event says.
    pub fn note(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Delta(piece) => {
                if !self.open {
                    self.begin_text();
                }
                self.open = true;
                self.text.push(piece.as_bytes());
            }
            AgentEvent::Text(text) => {
                let in_pieces = std::mem::take(&mut self.open);
                if !in_pieces {
                    self.begin_text();
                    self.text.push(text.as_bytes());
                }
            }
            AgentEvent::TextDone => self.open = false,
            AgentEvent::Usage(usage) => self.usage = *usage,
            _ => {}
        }
    }

    fn begin_text(&mut self) {
        if std::mem::replace(&mut self.any, true) {
            self.text.push(b"\n\n");
        }
    }

    /// What came of the run, once its program has ended.
    pub fn outcome(self, exit: Exit) -> Outcome {
        let ended = match (exit.cut, self.verdict, self.half_a_line) {
            (Some(cut), ..) => cut,
            (None, Some(Verdict::Well), _) => Ended::Well,
            (None, Some(Verdict::Failed(why)), _) => Ended::Failed(why),
            (None, Some(Verdict::NoSession), _) => Ended::NoSession,
            (None, Some(Verdict::OverBudget), _) => Ended::OverBudget,
            (None, None, _) if exit.code != 0 => Ended::Badly { code: exit.code, last_lines: exit.last_lines },
            (None, None, Some(half)) => {
                Ended::Failed(format!("it ended in the middle of a line: {}", shortened(&half)))
            }
            (None, None, None) => Ended::Failed("it ended without saying how it went".to_owned()),
        };
        let (text, left_out) = self.text.into_text();
        Outcome { text, left_out, usage: self.usage, ended }
    }
}

/// How much of a text is cleaned before its beginning is shown.
const LONGEST_CLEANED: usize = 4096;

/// A few words, in one line, of something that may be long.
pub(super) fn shortened(text: &str) -> String {
    let line = text.split_whitespace().take(60).collect::<Vec<_>>().join(" ");
    // Cleaned before it is cut: half a secret is not known for one.
    let start: String = line.chars().take(LONGEST_CLEANED).collect();
    let clean = Redactor::default().clean(&start);
    let short: String = clean.chars().take(120).collect();
    if short.len() < clean.len() || start.len() < line.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_whole_and_apart_however_they_come() {
        let mut heard = Heard::new();
        let text = |text: &str| AgentEvent::Text(text.to_owned());
        let delta = |text: &str| AgentEvent::Delta(text.to_owned());
        let done = AgentEvent::TextDone;
        for event in [delta("on"), delta("e"), text("one"), text("two"), delta("three"), done, delta("fo")] {
            heard.note(&event);
        }
        let exit = Exit { code: 0, last_lines: String::new(), cut: Some(Ended::TimedOut) };
        assert_eq!(heard.outcome(exit).text, "one\n\ntwo\n\nthree\n\nfo");
    }
}
