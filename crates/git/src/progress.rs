//! The progress of long calls: clone, fetch and checkout.
//!
//! A caller gives [`crate::Git::with_progress`] a callback. Calls that can report progress then ask git for
//! it, and what git writes about it is parsed while the call runs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A report about a call that takes long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitProgress {
    /// A remote keeps its caller waiting. Reported once per callback.
    WaitingFor {
        remote: String,
    },
    Step(ProgressStep),
}

/// A part of the work, as far as it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressStep {
    pub phase: ProgressPhase,
    pub percent: u8,
    pub done: u64,
    pub total: u64,
    /// The amount received and the rate, as git writes them: `1.20 MiB`, `2.30 MiB/s`.
    pub received: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressPhase {
    /// The remote collects the objects.
    Preparing,
    Receiving,
    Resolving,
    CheckingOut,
}

/// The function that gets the reports.
#[derive(Clone)]
pub struct ProgressCallback(Arc<ProgressReceiver>);

struct ProgressReceiver {
    told_of_wait: AtomicBool,
    report: Box<dyn Fn(GitProgress) + Send + Sync>,
}

impl ProgressCallback {
    pub fn new(report: impl Fn(GitProgress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(ProgressReceiver { told_of_wait: AtomicBool::new(false), report: Box::new(report) }))
    }

    pub(crate) fn report_wait(&self, remote: &str) {
        if !self.0.told_of_wait.swap(true, Ordering::Relaxed) {
            (self.0.report)(GitProgress::WaitingFor { remote: remote.to_owned() });
        }
    }

    fn report_step(&self, step: ProgressStep) {
        (self.0.report)(GitProgress::Step(step));
    }
}

impl fmt::Debug for ProgressCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressCallback").field("told_of_wait", &self.0.told_of_wait).finish_non_exhaustive()
    }
}

/// Finds the progress in the bytes that git writes to its standard error, and reports every change.
pub(crate) struct ProgressParser<'a> {
    callback: &'a ProgressCallback,
    line: Vec<u8>,
    last: Option<(ProgressPhase, u8)>,
}

/// The longest line that is kept; progress is shorter.
const MAX_PROGRESS_LINE_BYTES: usize = 512;

impl<'a> ProgressParser<'a> {
    pub fn new(callback: &'a ProgressCallback) -> Self {
        Self { callback, line: Vec::new(), last: None }
    }

    pub fn push_bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                // Progress overwrites its own line.
                b'\r' | b'\n' => self.end_line(),
                _ if self.line.len() < MAX_PROGRESS_LINE_BYTES => self.line.push(byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        let step = parse_progress(&String::from_utf8_lossy(&self.line));
        self.line.clear();
        let Some(step) = step else { return };
        let now = (step.phase, step.percent);
        // The amount received changes with every report of this phase.
        if self.last != Some(now) || step.received.is_some() {
            self.last = Some(now);
            self.callback.report_step(step);
        }
    }
}

/// Parses a line such as `Receiving objects:  42% (420/1000), 1.20 MiB | 2.30 MiB/s`.
fn parse_progress(line: &str) -> Option<ProgressStep> {
    let (name, rest) = line.split_once(": ").map(|(name, rest)| match name {
        "remote" => rest.split_once(": ").unwrap_or((rest, "")),
        name => (name, rest),
    })?;
    let phase = match name.trim() {
        "Enumerating objects" | "Counting objects" | "Compressing objects" => ProgressPhase::Preparing,
        "Receiving objects" | "Unpacking objects" => ProgressPhase::Receiving,
        "Resolving deltas" => ProgressPhase::Resolving,
        "Updating files" | "Filtering content" => ProgressPhase::CheckingOut,
        _ => return None,
    };
    let (percent, rest) = rest.trim_start().split_once("% (")?;
    let (counts, rest) = rest.split_once(')')?;
    let (done, total) = counts.split_once('/')?;
    let received = rest.strip_prefix(", ").and_then(|rest| rest.trim_end_matches(", done.").split_once(" | "));
    Some(ProgressStep {
        phase,
        percent: percent.parse().ok().filter(|percent| *percent <= 100)?,
        done: done.parse().ok()?,
        total: total.parse().ok()?,
        received: received.map(|(amount, rate)| (amount.trim().to_owned(), rate.trim().to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn step(phase: ProgressPhase, percent: u8, done: u64, total: u64) -> ProgressStep {
        ProgressStep { phase, percent, done, total, received: None }
    }

    #[test]
    fn lines_of_git_are_parsed() {
        let received = |amount: &str, rate: &str| Some((amount.to_owned(), rate.to_owned()));
        for (line, expected) in [
            ("remote: Counting objects:  50% (5/10)", Some(step(ProgressPhase::Preparing, 50, 5, 10))),
            ("remote: Compressing objects: 100% (7/7), done.", Some(step(ProgressPhase::Preparing, 100, 7, 7))),
            ("Updating files:   3% (21/700)", Some(step(ProgressPhase::CheckingOut, 3, 21, 700))),
            ("Resolving deltas: 100% (3/3), done.", Some(step(ProgressPhase::Resolving, 100, 3, 3))),
            (
                "Receiving objects:  42% (420/1000), 1.20 MiB | 2.30 MiB/s",
                Some(ProgressStep {
                    received: received("1.20 MiB", "2.30 MiB/s"),
                    ..step(ProgressPhase::Receiving, 42, 420, 1000)
                }),
            ),
            (
                "Receiving objects: 100% (9/9), 4.00 KiB | 1024 bytes/s, done.",
                Some(ProgressStep {
                    received: received("4.00 KiB", "1024 bytes/s"),
                    ..step(ProgressPhase::Receiving, 100, 9, 9)
                }),
            ),
            ("Receiving objects:  142% (9/9)", None),
            ("Receiving objects:  42% (a/9)", None),
            ("remote: Enumerating objects: 10, done.", None),
            ("remote: Total 10 (delta 0), reused 0", None),
            ("fatal: Receiving objects", None),
            ("", None),
        ] {
            assert_eq!(parse_progress(line), expected, "{line}");
        }
    }

    #[test]
    fn progress_is_reported_in_any_pieces_once_per_change() {
        let text = b"Cloning into 'x'...\nUpdating files:  10% (1/10)\rUpdating files:  10% (1/10)\rUpdating files:  20% (2/10)\rUpdating";
        for size in [1, 5, 1000] {
            let steps = Arc::new(Mutex::new(Vec::new()));
            let heard = steps.clone();
            let callback = ProgressCallback::new(move |progress| heard.lock().unwrap().push(progress));
            let mut parser = ProgressParser::new(&callback);
            text.chunks(size).for_each(|piece| parser.push_bytes(piece));
            parser.push_bytes(&[b'x'; 4096]);
            let expected = [step(ProgressPhase::CheckingOut, 10, 1, 10), step(ProgressPhase::CheckingOut, 20, 2, 10)];
            assert_eq!(*steps.lock().unwrap(), expected.map(GitProgress::Step), "{size}");
        }
    }
}
