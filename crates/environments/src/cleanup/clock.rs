//! Whether the clock can be trusted to say how long ago something was.
//!
//! A clock that was put forward makes everything look old. So each clean-up notes the time together
//! with how long the machine has been up; the next one compares how far both went.

use std::fs;

use grove_model::Moment;
use grove_store::StoreError;
use jiff::SignedDuration;

use crate::environments::Isolation;
use crate::lease::this_process;

const FACT: &str = "clock";
/// Clocks are corrected by small steps all the time; a larger one would make what is protected by
/// `cleanup.grace` look old.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);

/// The time, the boot that it was in, and how long that boot had lasted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    at: Moment,
    boot: String,
    up: SignedDuration,
}

impl Reading {
    fn write(&self) -> String {
        format!("{} {} {}", self.at, self.boot, self.up.as_secs())
    }

    fn read(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split(' ').collect();
        let [at, boot, up] = fields[..] else { return None };
        let up = SignedDuration::from_secs(up.parse().ok()?);
        Some(Self { at: at.parse().ok()?, boot: boot.to_owned(), up })
    }

    /// Whether the clock went as far as the machine has run since.
    fn is_steady_after(&self, before: &Reading) -> bool {
        let went = self.at.since(before.at);
        if went < -TOLERANCE {
            return false;
        }
        // After another boot nobody knows how long the machine was off.
        self.boot != before.boot || (went - (self.up - before.up)).abs() <= TOLERANCE
    }
}

impl Isolation {
    /// Compares the clock with what the last clean-up saw, and notes what it shows now.
    pub async fn clock_is_steady(&self, now: Moment) -> Result<bool, StoreError> {
        let steady = self.clock_seems_steady(now).await?;
        self.store.set_fact(&self.clock_fact(), &self.reading(now).write()).await?;
        Ok(steady)
    }

    /// The same, without a note.
    pub(super) async fn clock_seems_steady(&self, now: Moment) -> Result<bool, StoreError> {
        let before = self.store.fact(&self.clock_fact()).await?.and_then(|text| Reading::read(&text));
        Ok(before.is_none_or(|before| self.reading(now).is_steady_after(&before)))
    }

    fn clock_fact(&self) -> String {
        format!("{FACT} {}", self.node)
    }

    fn reading(&self, now: Moment) -> Reading {
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let up = uptime.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
        let boot = this_process().boot.replace(' ', "_");
        Reading { at: now, boot, up: SignedDuration::from_secs(up) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_went_further_than_the_machine_is_not_trusted() {
        let start = Reading { at: Moment::now(), boot: "a".into(), up: SignedDuration::from_hours(10) };
        let after = |clock: i64, up: i64, boot: &str| Reading {
            at: start.at.plus(SignedDuration::from_hours(clock)),
            boot: boot.into(),
            up: SignedDuration::from_hours(up),
        };
        assert!(after(6, 16, "a").is_steady_after(&start));
        assert!(after(24 * 30, 24 * 30 + 10, "a").is_steady_after(&start), "nobody looked for a month");
        assert!(!after(7, 16, "a").is_steady_after(&start), "put forward by an hour");
        assert!(!after(30, 16, "a").is_steady_after(&start), "put forward by a day");
        assert!(!after(-3, 16, "a").is_steady_after(&start), "put back");
        assert!(after(30, 1, "b").is_steady_after(&start), "it was switched off");
        assert!(!after(-3, 1, "b").is_steady_after(&start));
        assert_eq!(Reading::read(&start.write()), Some(start));
        assert_eq!(Reading::read("nonsense"), None);
    }
}
