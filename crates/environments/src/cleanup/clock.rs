//! Checks whether the clock can be trusted to tell the age of something.
//!
//! A clock that was set forward makes everything look old. So each clean-up records the time together with
//! how long the machine has been up; the next clean-up compares how far both advanced.

use std::fs;

use grove_model::Moment;
use grove_store::StoreError;
use jiff::SignedDuration;

use crate::environments::Environments;
use crate::lease::this_process;

const CLOCK_FACT_PREFIX: &str = "clock";
/// Clocks are corrected by small steps all the time. A larger step would make an environment that
/// `cleanup.grace` protects look old.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(5);

/// The time, the boot that it was read in, and how long that boot had lasted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClockReading {
    at: Moment,
    boot: String,
    up: SignedDuration,
}

impl ClockReading {
    fn to_record_text(&self) -> String {
        format!("{} {} {}", self.at, self.boot, self.up.as_secs())
    }

    fn parse_record(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split(' ').collect();
        let [at, boot, up] = fields[..] else { return None };
        let up = SignedDuration::from_secs(up.parse().ok()?);
        Some(Self { at: at.parse().ok()?, boot: boot.to_owned(), up })
    }

    /// Tells whether the clock advanced as far as the machine has run since `before`.
    fn is_steady_after(&self, before: &ClockReading) -> bool {
        let went = self.at.duration_since(before.at);
        if went < -CLOCK_TOLERANCE {
            return false;
        }
        // After another boot, the time that the machine was off is unknown.
        self.boot != before.boot || (went - (self.up - before.up)).abs() <= CLOCK_TOLERANCE
    }
}

impl Environments {
    /// Compares the clock with the reading of the last clean-up, and stores the new reading.
    pub async fn clock_is_steady(&self, now: Moment) -> Result<bool, StoreError> {
        let steady = self.clock_seems_steady(now).await?;
        self.store.set_fact(&self.clock_fact(), &self.read_clock(now).to_record_text()).await?;
        Ok(steady)
    }

    /// Compares the clock with the reading of the last clean-up, and stores nothing.
    pub(super) async fn clock_seems_steady(&self, now: Moment) -> Result<bool, StoreError> {
        let before = self.store.find_fact(&self.clock_fact()).await?.and_then(|text| ClockReading::parse_record(&text));
        Ok(before.is_none_or(|before| self.read_clock(now).is_steady_after(&before)))
    }

    fn clock_fact(&self) -> String {
        format!("{CLOCK_FACT_PREFIX} {}", self.node)
    }

    fn read_clock(&self, now: Moment) -> ClockReading {
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let up = uptime.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
        let boot = this_process().boot.replace(' ', "_");
        ClockReading { at: now, boot, up: SignedDuration::from_secs(up) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_went_further_than_the_machine_is_not_trusted() {
        let start = ClockReading { at: Moment::now(), boot: "a".into(), up: SignedDuration::from_hours(10) };
        let after = |clock: i64, up: i64, boot: &str| ClockReading {
            at: start.at.add_duration(SignedDuration::from_hours(clock)),
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
        assert_eq!(ClockReading::parse_record(&start.to_record_text()), Some(start));
        assert_eq!(ClockReading::parse_record("nonsense"), None);
    }
}
