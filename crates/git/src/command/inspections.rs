//! Inspections of worktrees that an agent can write: one at a time in each worktree.
//!
//! Git can be made to wait there forever, for example by a `.gitattributes` that is a pipe. Such a worktree
//! may occupy one slot of the running calls, not all of them. Equal calls that wait for their turn become
//! one: it starts after all of them asked, so its answer is fresh enough for each of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as TurnMutex, watch};
use tokio::time::timeout;

use crate::GitError;
use crate::command::FinishedCall;

/// The minimum time for a call that waited long for its turn.
const MIN_CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// The calls that are running or waiting in each worktree.
#[derive(Debug, Default)]
pub(crate) struct InspectionQueues {
    worktrees: Mutex<HashMap<PathBuf, Arc<WorktreeInspectionQueue>>>,
}

#[derive(Debug, Default)]
struct WorktreeInspectionQueue {
    turn: TurnMutex<()>,
    /// Calls that have not started, by the key that makes them equal.
    waiting: Mutex<HashMap<String, watch::Receiver<Option<InspectionResult>>>>,
}

type InspectionResult = Result<FinishedCall, GitError>;

impl InspectionQueues {
    /// Runs `call` when it is this worktree's turn, or shares the answer of an equal call that has not
    /// started yet. A turn that does not come within `limit` is a timeout.
    pub(crate) async fn take_turn(
        &self,
        worktree: &Path,
        key: String,
        what: String,
        limit: Duration,
        call: impl AsyncFnOnce(Duration) -> InspectionResult,
    ) -> InspectionResult {
        let here = Arc::clone(lock_mutex(&self.worktrees).entry(worktree.to_owned()).or_default());
        let answer = here.run_or_share(key, what, limit, call).await;
        // The last call to leave removes the entry.
        let mut worktrees = lock_mutex(&self.worktrees);
        drop(here);
        if worktrees.get(worktree).is_some_and(|left| Arc::strong_count(left) == 1) {
            worktrees.remove(worktree);
        }
        answer
    }
}

impl WorktreeInspectionQueue {
    async fn run_or_share(
        &self,
        key: String,
        what: String,
        limit: Duration,
        call: impl AsyncFnOnce(Duration) -> InspectionResult,
    ) -> InspectionResult {
        let began = Instant::now();
        let (leader, mut shared) = {
            let mut waiting = lock_mutex(&self.waiting);
            match waiting.get(&key).filter(|shared| shared.has_changed().is_ok()) {
                Some(shared) => (None, shared.clone()),
                None => {
                    let (sender, receiver) = watch::channel(None);
                    waiting.insert(key.clone(), receiver.clone());
                    (Some(sender), receiver)
                }
            }
        };
        let Some(leader) = leader else {
            let answered = shared.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
            // The call that would have answered was cancelled before it had an answer: this one
            // runs by itself.
            return match answered {
                Some(answer) => answer,
                None => self.run_alone(what, limit, began, call).await,
            };
        };
        let begins = WaitingCallGuard { waiting: &self.waiting, key };
        let answer = match timeout(limit, self.turn.lock()).await {
            Ok(_turn) => {
                // From here on an equal call must start its own.
                drop(begins);
                call(time_left(limit, began)).await
            }
            Err(_) => {
                drop(begins);
                Err(GitError::TimedOut { what, after: limit })
            }
        };
        leader.send_replace(Some(answer.clone()));
        answer
    }

    async fn run_alone(
        &self,
        what: String,
        limit: Duration,
        began: Instant,
        call: impl AsyncFnOnce(Duration) -> InspectionResult,
    ) -> InspectionResult {
        match timeout(time_left(limit, began), self.turn.lock()).await {
            Ok(_turn) => call(time_left(limit, began)).await,
            Err(_) => Err(GitError::TimedOut { what, after: limit }),
        }
    }
}

/// Returns the rest of the time that a call may take, waiting included. At least a little: a late call still
/// gets an answer if it is quick.
fn time_left(limit: Duration, began: Instant) -> Duration {
    limit.saturating_sub(began.elapsed()).max(MIN_CALL_TIMEOUT)
}

/// Removes a call from the waiting ones, also when it is cancelled.
struct WaitingCallGuard<'a> {
    waiting: &'a Mutex<HashMap<String, watch::Receiver<Option<InspectionResult>>>>,
    key: String,
}

impl Drop for WaitingCallGuard<'_> {
    fn drop(&mut self) {
        lock_mutex(self.waiting).remove(&self.key);
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    fn successful_answer(text: &str) -> InspectionResult {
        Ok((ExitStatus::from_raw(0), text.as_bytes().to_vec(), String::new()))
    }

    #[tokio::test]
    async fn equal_calls_that_wait_become_one_and_begin_after_they_were_asked_for() {
        let (inspections, begun, go) = (InspectionQueues::default(), AtomicUsize::new(0), Notify::new());
        let limit = Duration::from_secs(10);
        let ask = |key: &str| {
            inspections.take_turn(Path::new("/w"), key.to_owned(), "status".to_owned(), limit, async |_| {
                let count = begun.fetch_add(1, Ordering::SeqCst);
                if count == 0 {
                    go.notified().await;
                }
                successful_answer(&count.to_string())
            })
        };
        let text = |answer: InspectionResult| String::from_utf8(answer.unwrap().1).unwrap();
        let release = async {
            // Polled after the others: all of them are waiting by now.
            assert_eq!(begun.load(Ordering::SeqCst), 1);
            go.notify_one();
        };
        let (first, second, third, other, ()) = tokio::join!(ask("a"), ask("a"), ask("a"), ask("b"), release);
        assert_eq!(text(first), "0", "alone");
        let (second, third) = (text(second), text(third));
        assert_eq!(second, third, "one for both");
        assert_ne!(second, "0", "not the answer of a call that began before they asked");
        assert_ne!(text(other), second);
        assert_eq!(begun.load(Ordering::SeqCst), 3);
        assert!(lock_mutex(&inspections.worktrees).is_empty(), "nothing is left behind");
    }

    #[tokio::test]
    async fn a_stuck_call_is_waited_for_no_longer_than_the_limit_and_other_worktrees_do_not_wait() {
        let inspections = InspectionQueues::default();
        let ask = |worktree: &'static str, limit: u64, stuck: bool| {
            let (limit, name) = (Duration::from_millis(limit), worktree.to_owned());
            inspections.take_turn(Path::new(worktree), name, "status".to_owned(), limit, async move |left| {
                if stuck { std::future::pending().await } else { successful_answer(&format!("{left:?}")) }
            })
        };
        let first = ask("/stuck", 1000, true);
        let rest = async {
            let second = ask("/stuck", 50, false).await;
            assert!(matches!(second, Err(GitError::TimedOut { .. })), "it is never its turn");
            assert!(ask("/other", 1000, false).await.is_ok());
        };
        tokio::select! {
            biased;
            _ = first => panic!("it is stuck"),
            () = rest => {}
        }
    }
}
