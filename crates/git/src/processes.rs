//! Finding and ending every process that a call of git started, however far it wandered.
//!
//! A process group does not hold a child that began a session of its own, and a process that was
//! killed cannot end what it started. So every call carries a mark in its environment, which its
//! children inherit: `<process>.<start>.<call>` of the grove that made it.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use uuid::Uuid;

/// The variable that holds the mark.
pub(crate) const MARK: &str = "GROVE_GIT_RUN";

/// The variable that marks an agent's run and all that descends from it.
pub const RUN_MARK: &str = "GROVE_RUN";

/// The processes that carry the mark of a run, and the parent of every process.
pub fn marked_runs() -> (Vec<u32>, HashMap<u32, u32>) {
    let (mut marked, mut parents) = (Vec::new(), HashMap::new());
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        parents.extend(parent.map(|parent| (id, parent)));
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let prefix = format!("{RUN_MARK}=");
        if environ.split(|byte| *byte == 0).any(|variable| variable.starts_with(prefix.as_bytes())) {
            marked.push(id);
        }
    }
    (marked, parents)
}

/// Ends what is left of an agent's run, at once.
pub async fn end_run(mark: &str) {
    end_all(RUN_MARK, mark, &[Signal::KILL]).await;
}

/// The mark of a new call.
pub(crate) fn new_mark() -> String {
    static START: OnceLock<u64> = OnceLock::new();
    let us = std::process::id();
    let started = *START.get_or_init(|| if let Life::Since(started) = life_of(us) { started } else { 0 });
    format!("{}{}", mark_of(us, started), Uuid::now_v7())
}

/// How the marks of all calls of one process begin.
fn mark_of(process: u32, started: u64) -> String {
    format!("{process}.{started}.")
}

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It began at this time, in the kernel's ticks. Ids are used again, the two together are not.
    Since(u64),
    Ended,
    /// It could not be found out: not to be taken for ended.
    Unknown,
}

pub fn life_of(process: u32) -> Life {
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return Life::Ended };
    let stat = match std::fs::read_to_string(format!("/proc/{process}/stat")) {
        Ok(stat) => stat,
        // Another user's process may be hidden; a signal of nothing tells whether it is there.
        Err(_) if test_kill_process(pid) == Err(rustix::io::Errno::SRCH) => return Life::Ended,
        Err(_) => return Life::Unknown,
    };
    // The name, in parentheses, may hold anything; what follows it is numbers.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return Life::Unknown };
    let mut fields = rest.split(' ');
    match (fields.next(), fields.nth(18).map(str::parse)) {
        // A zombie has ended; only its parent has not looked yet.
        (Some("Z" | "X"), _) => Life::Ended,
        (_, Some(Ok(started))) => Life::Since(started),
        _ => Life::Unknown,
    }
}

/// Ends every git, and what it started, that a process which is gone has left running.
pub async fn end_calls_of(process: u32, started: u64) {
    // A git that is asked takes its lock files away; one that does not listen is ended.
    end_marked(&mark_of(process, started), &[Signal::TERM, Signal::KILL]).await;
}

/// Sends each signal in turn until nobody with such a mark is left, for at most a second each.
pub(crate) async fn end_marked(mark: &str, signals: &[Signal]) {
    end_all(MARK, mark, signals).await;
}

async fn end_all(variable: &str, mark: &str, signals: &[Signal]) {
    for signal in signals {
        for _ in 0..100 {
            let marked = marked_processes(variable, mark);
            if marked.is_empty() {
                return;
            }
            for pid in marked {
                let _ = kill_process(pid, *signal);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Processes whose environment carries a mark that begins so.
fn marked_processes(variable: &str, mark: &str) -> Vec<Pid> {
    let wanted = format!("{variable}={mark}");
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .filter(|pid| {
            let environ = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable.starts_with(wanted.as_bytes()))
        })
        .collect()
}
