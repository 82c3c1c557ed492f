//! Programs that report their work as JSON, one object per line.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, DuplexStream};
use tokio::process::ChildStdout;
use tokio::sync::mpsc;

use crate::agent::AgentEvent;
use crate::process::OutputListener;
use crate::transcript::{ReportedEnd, Transcript};

/// The longest line that is read. Longer lines are skipped: nothing that is shown or kept is that long.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// The number of bytes that are read at once.
const READ_CHUNK_BYTES: usize = 8 * 1024;
/// The time that a program has to exit by itself after its last message.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Interprets the lines of one kind of program.
pub(super) trait LineParser: Send {
    /// Parses one line; unknown lines are skipped.
    fn parse_line(&mut self, line: &Value, transcript: &mut Transcript) -> Vec<AgentEvent>;
}

/// Listens to a program, whose lines `D` interprets.
pub(super) struct JsonLinesListener<D> {
    pub dialect: D,
    pub transcript: Transcript,
    /// The maximum cost of the run.
    pub budget: Option<f64>,
    pub says: mpsc::Sender<AgentEvent>,
}

#[async_trait]
impl<D: LineParser> OutputListener for JsonLinesListener<D> {
    async fn listen_to_output(&mut self, from: &mut ChildStdout, _to: DuplexStream) -> Option<Duration> {
        let mut lines = LineReader::new(from);
        while let Some(line) = lines.next_line().await {
            // A program may print other lines in between.
            let Ok(value) = serde_json::from_slice(&line) else { continue };
            for event in self.dialect.parse_line(&value, &mut self.transcript) {
                self.transcript.record_event(&event);
                // The transcript keeps the event even if the receiver is gone.
                let _ = self.says.send(event).await;
            }
            if self.budget.is_some_and(|budget| self.transcript.usage.cost > budget)
                && self.transcript.verdict.is_none()
            {
                self.transcript.verdict = Some(ReportedEnd::OverBudget);
                return Some(Duration::ZERO);
            }
            if self.transcript.verdict.is_some() {
                return Some(EXIT_TIMEOUT);
            }
        }
        self.transcript.half_a_line = lines.unfinished_line();
        None
    }
}

/// Reads the lines of an output in bounded memory.
pub(super) struct LineReader<'a, R> {
    from: &'a mut R,
    buffer: Vec<u8>,
    /// The number of bytes at the start of the buffer that contain no end of line.
    looked_at: usize,
    /// The reader is in the middle of a line that is too long.
    skipping: bool,
}

impl<'a, R: AsyncRead + Unpin> LineReader<'a, R> {
    pub fn new(from: &'a mut R) -> Self {
        Self { from, buffer: Vec::new(), looked_at: 0, skipping: false }
    }

    /// Returns the next complete line. Cancel safe: a caller that stops waiting loses no line.
    pub async fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[self.looked_at..]) {
                let rest = self.buffer.split_off(self.looked_at + end + 1);
                let line = std::mem::replace(&mut self.buffer, rest);
                self.looked_at = 0;
                if !std::mem::take(&mut self.skipping) {
                    return Some(line);
                }
                continue;
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                self.buffer = Vec::new();
                self.skipping = true;
            }
            self.looked_at = self.buffer.len();
            self.buffer.reserve(READ_CHUNK_BYTES);
            match self.from.read_buf(&mut self.buffer).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
    }

    /// Returns the text after the last complete line.
    pub fn unfinished_line(self) -> Option<String> {
        let rest = String::from_utf8_lossy(&self.buffer).trim().to_owned();
        (self.skipping || !rest.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines_of(text: &[u8]) -> (Vec<usize>, Option<String>) {
        let mut from = text;
        let mut lines = LineReader::new(&mut from);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().await {
            found.push(line.len());
        }
        (found, lines.unfinished_line())
    }

    #[tokio::test]
    async fn half_a_line_is_told_from_a_whole_one() {
        assert_eq!(lines_of(b"{}\n{\"a\":1}\n").await, (vec![3, 8], None));
        assert_eq!(lines_of(b"{}\n{\"a\":").await, (vec![3], Some("{\"a\":".to_owned())));
        assert_eq!(lines_of(b"").await, (vec![], None));
    }

    #[tokio::test]
    async fn a_line_without_end_is_skipped() {
        let mut text = vec![b'x'; MAX_LINE_BYTES * 2];
        text.extend_from_slice(b"\nnext\n");
        assert_eq!(lines_of(&text).await, (vec![5], None));
    }
}
