//! The pause before a retry.

use std::time::Duration;

/// A pause that doubles with every failure, between two limits.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pub shortest: Duration,
    pub longest: Duration,
}

/// The pauses for a request or a text that another service does not take.
pub const RETRY_BACKOFF: Backoff = Backoff { shortest: Duration::from_secs(2), longest: Duration::from_secs(300) };

impl Backoff {
    /// Returns the pause after so many failures.
    pub fn delay_after(&self, failures: i64) -> Duration {
        self.shortest.saturating_mul(1 << failures.clamp(0, 16)).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_limit() {
        let pauses = [-1, 0, 1, 2, 7, 8, i64::MAX].map(|failures| RETRY_BACKOFF.delay_after(failures).as_secs());
        assert_eq!(pauses, [2, 2, 4, 8, 256, 300, 300]);
    }
}
