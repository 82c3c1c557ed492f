//! Programs that say what they do as JSON, an object in each line.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, DuplexStream};
use tokio::process::ChildStdout;
use tokio::sync::mpsc;

use crate::agent::AgentEvent;
use crate::process::Listen;
use crate::transcript::{Heard, Verdict};

/// A longer line is skipped: nothing that is shown or kept is as long.
const LONGEST: usize = 16 * 1024 * 1024;
/// How much is read at once.
const PIECE: usize = 8 * 1024;
/// How long a program may take to end by itself when it has said its last word.
const LINGER: Duration = Duration::from_secs(5);

/// What the lines of one kind of program mean.
pub(super) trait Dialect: Send {
    /// Takes one line; what is unknown is skipped.
    fn take(&mut self, line: &Value, heard: &mut Heard) -> Vec<AgentEvent>;
}

/// Listens to a program that speaks a dialect.
pub(super) struct JsonLines<D> {
    pub dialect: D,
    pub heard: Heard,
    /// What the run may cost.
    pub budget: Option<f64>,
    pub says: mpsc::Sender<AgentEvent>,
}

#[async_trait]
impl<D: Dialect> Listen for JsonLines<D> {
    async fn listen(&mut self, from: &mut ChildStdout, _to: DuplexStream) -> Option<Duration> {
        let mut lines = Lines::new(from);
        while let Some(line) = lines.next().await {
            // A program may print other things in between.
            let Ok(value) = serde_json::from_slice(&line) else { continue };
            for event in self.dialect.take(&value, &mut self.heard) {
                self.heard.note(&event);
                // What was heard is kept here anyway.
                let _ = self.says.send(event).await;
            }
            if self.budget.is_some_and(|budget| self.heard.usage.cost > budget) && self.heard.verdict.is_none() {
                self.heard.verdict = Some(Verdict::OverBudget);
                return Some(Duration::ZERO);
            }
            if self.heard.verdict.is_some() {
                return Some(LINGER);
            }
        }
        self.heard.half_a_line = lines.rest();
        None
    }
}

/// The lines of an output, in bounded memory.
pub(super) struct Lines<'a, R> {
    from: &'a mut R,
    buffer: Vec<u8>,
    /// How much of the buffer has no line's end.
    looked_at: usize,
    /// In the middle of a line that is too long.
    skipping: bool,
}

impl<'a, R: AsyncRead + Unpin> Lines<'a, R> {
    pub fn new(from: &'a mut R) -> Self {
        Self { from, buffer: Vec::new(), looked_at: 0, skipping: false }
    }

    /// The next whole line. Whoever stops waiting for it misses nothing.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer[self.looked_at..].iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(self.looked_at + end + 1);
                let line = std::mem::replace(&mut self.buffer, rest);
                self.looked_at = 0;
                if !std::mem::take(&mut self.skipping) {
                    return Some(line);
                }
                continue;
            }
            if self.buffer.len() > LONGEST {
                self.buffer = Vec::new();
                self.skipping = true;
            }
            self.looked_at = self.buffer.len();
            self.buffer.reserve(PIECE);
            match self.from.read_buf(&mut self.buffer).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
    }

    /// What stands behind the last whole line.
    pub fn rest(self) -> Option<String> {
        let rest = String::from_utf8_lossy(&self.buffer).trim().to_owned();
        (self.skipping || !rest.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines_of(text: &[u8]) -> (Vec<usize>, Option<String>) {
        let mut from = text;
        let mut lines = Lines::new(&mut from);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await {
            found.push(line.len());
        }
        (found, lines.rest())
    }

    #[tokio::test]
    async fn half_a_line_is_told_from_a_whole_one() {
        assert_eq!(lines_of(b"{}\n{\"a\":1}\n").await, (vec![3, 8], None));
        assert_eq!(lines_of(b"{}\n{\"a\":").await, (vec![3], Some("{\"a\":".to_owned())));
        assert_eq!(lines_of(b"").await, (vec![], None));
    }

    #[tokio::test]
    async fn a_line_without_end_is_skipped() {
        let mut text = vec![b'x'; LONGEST * 2];
        text.extend_from_slice(b"\nnext\n");
        assert_eq!(lines_of(&text).await, (vec![5], None));
    }
}
