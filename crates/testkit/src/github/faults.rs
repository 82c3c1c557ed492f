//! What goes wrong when a test wants it to.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::Fault;
use super::http::{Request, Response};
use super::rest::problem;
use super::state::State;

impl Fault {
    pub fn response(&self) -> Response {
        let secondary = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
        let after = |response: Response, seconds: &Option<u64>| match seconds {
            Some(seconds) => response.with("retry-after", &seconds.to_string()),
            None => response,
        };
        match self {
            Fault::TooMany { retry_after } => after(problem(429, "Too many requests"), retry_after),
            Fault::Secondary { retry_after } => after(problem(403, secondary), retry_after),
            Fault::UsedUp { seconds } => {
                let reset = (Timestamp::now().as_second() + seconds).to_string();
                problem(403, "API rate limit exceeded")
                    .with("x-ratelimit-remaining", "0")
                    .with("x-ratelimit-reset", &reset)
            }
            Fault::Status(status) => problem(*status, "Something went wrong"),
            Fault::Spared | Fault::DropBefore | Fault::DropAfter | Fault::HoldBefore | Fault::HoldAfter => {
                Response::new(500, "")
            }
        }
    }
}

impl State {
    pub fn next_fault(&mut self, request: &Request) -> Option<Fault> {
        let hits =
            |method: &str, path: &str| (method.is_empty() || method == request.method) && request.path.contains(path);
        let planned =
            self.faults.iter_mut().find(|planned| planned.times > 0 && hits(&planned.method, &planned.path))?;
        planned.times -= 1;
        Some(planned.fault.clone())
    }
}

/// Requests that wait for the test.
#[derive(Default)]
pub struct Held {
    /// How many wait, and how often all were let go.
    waiting: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Held {
    /// Waits until the test lets go.
    pub fn hold(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0 += 1;
        let round = waiting.1;
        self.changed.notify_all();
        let mut waiting =
            self.changed.wait_while(waiting, |now| now.1 == round).unwrap_or_else(PoisonError::into_inner);
        waiting.0 -= 1;
        self.changed.notify_all();
    }

    /// Waits until somebody waits; whether somebody does.
    pub fn comes(&self, patience: Duration) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(waiting, patience, |now| now.0 == 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.0 > 0
    }

    pub fn let_go(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.1 += 1;
        self.changed.notify_all();
        // Until the last has gone, or it would be taken for the next.
        drop(self.changed.wait_while(waiting, |now| now.0 > 0));
    }
}
