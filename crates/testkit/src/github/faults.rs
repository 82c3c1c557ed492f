//! What goes wrong when a test wants it to.

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
            Fault::DropBefore | Fault::DropAfter => Response::new(500, ""),
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
