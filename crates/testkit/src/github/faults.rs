//! Failures that a test plans.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::RequestFault;
use super::http::{HttpRequest, HttpResponse};
use super::rest::error_response;
use super::state::FakeGithubState;

impl RequestFault {
    pub fn to_response(&self) -> HttpResponse {
        let secondary = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
        let after = |response: HttpResponse, seconds: &Option<u64>| match seconds {
            Some(seconds) => response.with_header("retry-after", &seconds.to_string()),
            None => response,
        };
        match self {
            RequestFault::TooMany { retry_after } => after(error_response(429, "Too many requests"), retry_after),
            RequestFault::Secondary { retry_after } => after(error_response(403, secondary), retry_after),
            RequestFault::UsedUp { seconds } => {
                let reset = (Timestamp::now().as_second() + seconds).to_string();
                error_response(403, "API rate limit exceeded")
                    .with_header("x-ratelimit-remaining", "0")
                    .with_header("x-ratelimit-reset", &reset)
            }
            RequestFault::Status(status) => error_response(*status, "Something went wrong"),
            RequestFault::Spared
            | RequestFault::DropBefore
            | RequestFault::DropAfter
            | RequestFault::HoldBefore
            | RequestFault::HoldAfter => HttpResponse::new(500, ""),
        }
    }
}

impl FakeGithubState {
    pub fn next_fault(&mut self, request: &HttpRequest) -> Option<RequestFault> {
        let hits =
            |method: &str, path: &str| (method.is_empty() || method == request.method) && request.path.contains(path);
        let planned =
            self.faults.iter_mut().find(|planned| planned.times > 0 && hits(&planned.method, &planned.path))?;
        planned.times -= 1;
        Some(planned.fault.clone())
    }
}

/// Requests that wait until the test releases them.
#[derive(Default)]
pub struct HeldRequests {
    /// How many requests wait, and how often all were released.
    waiting: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl HeldRequests {
    /// Waits until the test releases the held requests.
    pub fn wait_for_release(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0 += 1;
        let round = waiting.1;
        self.changed.notify_all();
        let mut waiting =
            self.changed.wait_while(waiting, |now| now.1 == round).unwrap_or_else(PoisonError::into_inner);
        waiting.0 -= 1;
        self.changed.notify_all();
    }

    /// Waits until a request is held; returns false after `patience`.
    pub fn wait_for_held(&self, patience: Duration) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(waiting, patience, |now| now.0 == 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.0 > 0
    }

    pub fn let_go(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.1 += 1;
        self.changed.notify_all();
        // Waits until the last held request has left, or it would be taken for the next one.
        drop(self.changed.wait_while(waiting, |now| now.0 > 0));
    }
}
