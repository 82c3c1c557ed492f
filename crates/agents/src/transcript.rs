//! The transcript of a run: the agent's text, its usage, and how it reports that it ended.

use grove_environments::redact::Redactor;

use crate::agent::{AgentEvent, MAX_KEPT_TEXT_BYTES, RunEnd, RunOutcome, RunUsage};
use crate::process::ProgramExit;
use crate::tail::TextTail;

/// The end of a run as the agent itself reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReportedEnd {
    Well,
    Failed(String),
    NoSession,
    OverBudget,
}

pub(super) struct Transcript {
    text: TextTail,
    /// Some text was recorded before.
    any: bool,
    /// A text is being streamed and is not complete.
    open: bool,
    pub usage: RunUsage,
    pub verdict: Option<ReportedEnd>,
    /// The incomplete line at which the program ended.
    pub half_a_line: Option<String>,
}

impl Transcript {
    pub fn new() -> Self {
        let (text, usage) = (TextTail::new(MAX_KEPT_TEXT_BYTES), RunUsage::default());
        Self { text, any: false, open: false, usage, verdict: None, half_a_line: None }
    }

    /// Tells whether no text was recorded so far.
    pub fn is_silent(&self) -> bool {
        !self.any
    }

    /// Records an event.
    pub fn record_event(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Delta(piece) => {
                if !self.open {
                    self.begin_text();
                }
                self.open = true;
                self.text.push_bytes(piece.as_bytes());
            }
            AgentEvent::Text(text) => {
                let in_pieces = std::mem::take(&mut self.open);
                if !in_pieces {
                    self.begin_text();
                    self.text.push_bytes(text.as_bytes());
                }
            }
            AgentEvent::TextDone => self.open = false,
            AgentEvent::Usage(usage) => self.usage = *usage,
            _ => {}
        }
    }

    fn begin_text(&mut self) {
        if std::mem::replace(&mut self.any, true) {
            self.text.push_bytes(b"\n\n");
        }
    }

    /// Returns the outcome of the run, once its program has ended.
    pub fn into_run_outcome(self, exit: ProgramExit) -> RunOutcome {
        let ended = match (exit.cut, self.verdict, self.half_a_line) {
            (Some(cut), ..) => cut,
            (None, Some(ReportedEnd::Well), _) => RunEnd::Well,
            (None, Some(ReportedEnd::Failed(why)), _) => RunEnd::Failed(why),
            (None, Some(ReportedEnd::NoSession), _) => RunEnd::NoSession,
            (None, Some(ReportedEnd::OverBudget), _) => RunEnd::OverBudget,
            (None, None, _) if exit.code != 0 => RunEnd::Badly { code: exit.code, last_lines: exit.last_lines },
            (None, None, Some(half)) => {
                RunEnd::Failed(format!("it ended in the middle of a line: {}", shorten_line(&half)))
            }
            (None, None, None) => RunEnd::Failed("it ended without saying how it went".to_owned()),
        };
        let (text, left_out) = self.text.into_text();
        RunOutcome { text, left_out, usage: self.usage, ended }
    }
}

/// The number of characters of a text that are redacted before its start is shown.
const MAX_CLEANED_BYTES: usize = 4096;

/// Shortens a text that may be long to a few words in one line.
pub(super) fn shorten_line(text: &str) -> String {
    let line = text.split_whitespace().take(60).collect::<Vec<_>>().join(" ");
    // Redacted before it is cut: half of a secret would not be recognized.
    let start: String = line.chars().take(MAX_CLEANED_BYTES).collect();
    let clean = Redactor::default().redact_text(&start);
    let short: String = clean.chars().take(120).collect();
    if short.len() < clean.len() || start.len() < line.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_whole_and_apart_however_they_come() {
        let mut transcript = Transcript::new();
        let text = |text: &str| AgentEvent::Text(text.to_owned());
        let delta = |text: &str| AgentEvent::Delta(text.to_owned());
        let done = AgentEvent::TextDone;
        for event in [delta("on"), delta("e"), text("one"), text("two"), delta("three"), done, delta("fo")] {
            transcript.record_event(&event);
        }
        let exit = ProgramExit { code: 0, last_lines: String::new(), cut: Some(RunEnd::TimedOut) };
        assert_eq!(transcript.into_run_outcome(exit).text, "one\n\ntwo\n\nthree\n\nfo");
    }
}
