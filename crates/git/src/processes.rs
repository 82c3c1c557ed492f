//! Finds and ends every process that a call of git started, even outside of its process group.
//!
//! A process group does not hold a child that started a session of its own, and a process that was
//! killed cannot end its children. So every call carries a mark in its environment, which its
//! children inherit: `<process>.<start>.<call>` of the grove that made it.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use uuid::Uuid;

/// The variable that holds the mark.
pub(crate) const CALL_MARK_VARIABLE: &str = "GROVE_GIT_RUN";

/// The variable that marks an agent's run and all its descendants.
pub const RUN_MARK_VARIABLE: &str = "GROVEKEEPER_RUN";

/// A process, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    pub id: u32,
    pub parent: u32,
    pub group: i32,
    /// It has ended; only its parent has not reaped it yet.
    pub ended: bool,
    /// In the kernel's ticks.
    started: u64,
}

impl ProcessInfo {
    fn read_process(id: u32) -> io::Result<Option<Self>> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        Ok(Self::of_stat(id, &stat))
    }

    /// Parses `/proc/<id>/stat`. The name, in parentheses, may contain any character; a letter and
    /// numbers follow it.
    fn of_stat(id: u32, stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        // If only the first thread has ended, the process has not.
        let threads = || std::fs::read_dir(format!("/proc/{id}/task")).map_or(0, Iterator::count);
        let ended = matches!(*fields.first()?, "Z" | "X") && threads() <= 1;
        let (parent, group) = (fields.get(1)?.parse().ok()?, fields.get(2)?.parse().ok()?);
        Some(Self { id, parent, group, ended, started: fields.get(19)?.parse().ok()? })
    }

    /// Returns all processes that are visible.
    pub fn list_all() -> Vec<Self> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter_map(|id| Self::read_process(id).ok().flatten()).collect()
    }

    /// Tells whether its environment has a `variable` whose value begins with `mark`.
    pub fn is_marked(&self, variable: &str, mark: &str) -> bool {
        self.value_of(variable).is_some_and(|value| value.starts_with(mark.as_bytes()))
    }

    fn value_of(&self, variable: &str) -> Option<Vec<u8>> {
        let environ = std::fs::read(format!("/proc/{}/environ", self.id)).unwrap_or_default();
        let mut variables = environ.split(|byte| *byte == 0);
        variables.find_map(|known| known.strip_prefix(variable.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec))
    }

    /// Tells whether it was started with this argument.
    fn was_given(&self, argument: &[u8]) -> bool {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.id)).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|given| given == argument)
    }

    /// Sends it a signal, unless it has ended in the meantime.
    pub fn send_signal(&self, signal: Signal) {
        signal_all([self.id], signal);
    }
}

/// Sends a signal to each process that has not ended in the meantime.
pub(crate) fn signal_all(processes: impl IntoIterator<Item = u32>, signal: Signal) {
    for pid in processes.into_iter().filter_map(|id| Pid::from_raw(id.cast_signed())) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills the remaining processes of an agent's run at once.
pub async fn end_run(mark: &str) {
    end_all(RUN_MARK_VARIABLE, mark, &[Signal::KILL]).await;
}

/// Creates the mark of a new call.
pub(crate) fn new_mark() -> String {
    static PROCESS_START: OnceLock<u64> = OnceLock::new();
    let us = std::process::id();
    let started =
        *PROCESS_START.get_or_init(|| if let ProcessLifetime::Since(started) = life_of(us) { started } else { 0 });
    format!("{}{}", mark_of(us, started), Uuid::now_v7())
}

/// Returns the prefix of the marks of all calls of one process.
fn mark_of(process: u32, started: u64) -> String {
    format!("{process}.{started}.")
}

/// The known state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessLifetime {
    /// It started at this time, in the kernel's ticks. Ids are reused; the pair of id and time is
    /// not.
    Since(u64),
    Ended,
    /// It could not be determined: do not treat it as ended.
    Unknown,
}

pub fn life_of(process: u32) -> ProcessLifetime {
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return ProcessLifetime::Ended };
    match ProcessInfo::read_process(process) {
        Ok(Some(ProcessInfo { ended: true, .. })) => ProcessLifetime::Ended,
        Ok(Some(ProcessInfo { started, .. })) => ProcessLifetime::Since(started),
        // Another user's process may be hidden; an empty signal tells whether it exists.
        Err(_) if test_kill_process(pid) == Err(rustix::io::Errno::SRCH) => ProcessLifetime::Ended,
        Ok(None) | Err(_) => ProcessLifetime::Unknown,
    }
}

/// Ends every git that a process which is gone has left running, and everything that those started.
pub async fn end_calls_of(process: u32, started: u64) {
    // A git that gets TERM removes its lock files; one that ignores it is killed.
    end_marked(&mark_of(process, started), &[Signal::TERM, Signal::KILL]).await;
}

/// Ends every call of git that was given this path, and everything that it started. For a caller
/// that knows that no other process waits for it any more.
pub async fn end_calls_given(path: &Path) {
    let given = ProcessInfo::list_all().into_iter().filter(|process| process.was_given(path.as_os_str().as_bytes()));
    let marks = given.filter_map(|process| String::from_utf8(process.value_of(CALL_MARK_VARIABLE)?).ok());
    for mark in marks.filter(|mark| !mark.is_empty()) {
        end_marked(&mark, &[Signal::TERM, Signal::KILL]).await;
    }
}

/// Sends each signal in turn until no process with such a mark is left, for at most a second each.
pub(crate) async fn end_marked(mark: &str, signals: &[Signal]) {
    end_all(CALL_MARK_VARIABLE, mark, signals).await;
}

async fn end_all(variable: &str, mark: &str, signals: &[Signal]) {
    for signal in signals {
        for _ in 0..100 {
            let marked: Vec<ProcessInfo> =
                ProcessInfo::list_all().into_iter().filter(|process| process.is_marked(variable, mark)).collect();
            if marked.is_empty() {
                return;
            }
            marked.iter().for_each(|process| process.send_signal(*signal));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
