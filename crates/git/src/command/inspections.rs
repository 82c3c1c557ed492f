//! Looks at a worktree that an agent can write: one at a time in each worktree.
//!
//! Git can be made to wait there for ever, for example by a `.gitattributes` that is a pipe. Such a
//! worktree may take one place of those that run, not all of them. Equal calls that wait for their turn
//! become one: it begins after all of them asked, so its answer is as new as each of them wants it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as TurnMutex, watch};
use tokio::time::timeout;

use crate::GitError;
use crate::command::Ended;

/// What a call gets that waited long for its turn.
const LEAST_TIME: Duration = Duration::from_secs(2);

/// What is under way in each worktree.
#[derive(Debug, Default)]
pub(crate) struct Inspections {
    worktrees: Mutex<HashMap<PathBuf, Arc<WorktreeInspections>>>,
}

#[derive(Debug, Default)]
struct WorktreeInspections {
    turn: TurnMutex<()>,
    /// Calls that have not begun, by what makes them equal.
    waiting: Mutex<HashMap<String, watch::Receiver<Option<Answer>>>>,
}

type Answer = Result<Ended, GitError>;

impl Inspections {
    /// Runs `call` when it is this worktree's turn, or shares the answer of an equal call that has not
    /// begun yet. A turn that does not come within `limit` is a time-out.
    pub(crate) async fn take_turn(
        &self,
        worktree: &Path,
        key: String,
        what: String,
        limit: Duration,
        call: impl AsyncFnOnce(Duration) -> Answer,
    ) -> Answer {
        let here = Arc::clone(lock(&self.worktrees).entry(worktree.to_owned()).or_default());
        let answer = here.run_or_share(key, what, limit, call).await;
        // The last to leave takes the entry away.
        let mut worktrees = lock(&self.worktrees);
        drop(here);
        if worktrees.get(worktree).is_some_and(|left| Arc::strong_count(left) == 1) {
            worktrees.remove(worktree);
        }
        answer
    }
}

impl WorktreeInspections {
    async fn run_or_share(
        &self,
        key: String,
        what: String,
        limit: Duration,
        call: impl AsyncFnOnce(Duration) -> Answer,
    ) -> Answer {
        let began = Instant::now();
        let (leader, mut shared) = {
            let mut waiting = lock(&self.waiting);
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
            // The one that asked was cancelled before it had an answer: this one asks by itself.
            return match answered {
                Some(answer) => answer,
                None => self.run_alone(what, limit, began, call).await,
            };
        };
        let begins = Begins { waiting: &self.waiting, key };
        let answer = match timeout(limit, self.turn.lock()).await {
            Ok(_turn) => {
                // From here on an equal call must ask anew.
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
        call: impl AsyncFnOnce(Duration) -> Answer,
    ) -> Answer {
        match timeout(time_left(limit, began), self.turn.lock()).await {
            Ok(_turn) => call(time_left(limit, began)).await,
            Err(_) => Err(GitError::TimedOut { what, after: limit }),
        }
    }
}

/// What is left of the time that a call may take, waiting included. A little, at least: one that comes
/// late still deserves an answer if it is quick.
fn time_left(limit: Duration, began: Instant) -> Duration {
    limit.saturating_sub(began.elapsed()).max(LEAST_TIME)
}

/// Takes a call out of those that wait, also when it is cancelled.
struct Begins<'a> {
    waiting: &'a Mutex<HashMap<String, watch::Receiver<Option<Answer>>>>,
    key: String,
}

impl Drop for Begins<'_> {
    fn drop(&mut self) {
        lock(self.waiting).remove(&self.key);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    fn answer(text: &str) -> Answer {
        Ok((ExitStatus::from_raw(0), text.as_bytes().to_vec(), String::new()))
    }

    #[tokio::test]
    async fn equal_calls_that_wait_become_one_and_begin_after_they_were_asked_for() {
        let (inspections, begun, go) = (Inspections::default(), AtomicUsize::new(0), Notify::new());
        let limit = Duration::from_secs(10);
        let ask = |key: &str| {
            inspections.take_turn(Path::new("/w"), key.to_owned(), "status".to_owned(), limit, async |_| {
                let count = begun.fetch_add(1, Ordering::SeqCst);
                if count == 0 {
                    go.notified().await;
                }
                answer(&count.to_string())
            })
        };
        let text = |answer: Answer| String::from_utf8(answer.unwrap().1).unwrap();
        let release = async {
            // Polled after the others: they all wait by now.
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
        assert!(lock(&inspections.worktrees).is_empty(), "nothing is left behind");
    }

    #[tokio::test]
    async fn a_stuck_call_is_waited_for_no_longer_than_the_limit_and_other_worktrees_do_not_wait() {
        let inspections = Inspections::default();
        let ask = |worktree: &'static str, limit: u64, stuck: bool| {
            let (limit, name) = (Duration::from_millis(limit), worktree.to_owned());
            inspections.take_turn(Path::new(worktree), name, "status".to_owned(), limit, async move |left| {
                if stuck { std::future::pending().await } else { answer(&format!("{left:?}")) }
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
