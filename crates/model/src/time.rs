//! Moments as the store keeps them: UTC, fixed width, so that text order is time order.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Moment(Timestamp);

impl Moment {
    pub fn now() -> Self {
        Self::from_timestamp(Timestamp::now())
    }

    /// Cuts the timestamp to microseconds, the precision that every engine keeps.
    pub fn from_timestamp(timestamp: Timestamp) -> Self {
        let micros = timestamp.as_microsecond();
        Self(Timestamp::from_microsecond(micros).unwrap_or(timestamp))
    }

    pub fn from_unix(seconds: i64) -> Option<Self> {
        Timestamp::from_second(seconds).ok().map(Self::from_timestamp)
    }

    pub fn to_timestamp(self) -> Timestamp {
        self.0
    }

    /// Returns the time since `earlier`; negative if `earlier` is later than this moment.
    pub fn duration_since(self, earlier: Moment) -> SignedDuration {
        self.0.duration_since(earlier.0)
    }

    /// Returns the time since `earlier` as people say it: `5 min`, `3 days`.
    pub fn age_since(self, earlier: Moment) -> String {
        let seconds = self.duration_since(earlier).as_secs();
        match seconds {
            ..60 => format!("{} s", seconds.max(0)),
            60..3600 => format!("{} min", seconds / 60),
            3600..86_400 => format!("{} h", seconds / 3600),
            86_400..172_800 => "1 day".to_owned(),
            _ => format!("{} days", seconds / 86_400),
        }
    }

    pub fn add_duration(self, span: SignedDuration) -> Self {
        self.0.checked_add(span).map_or(self, Self::from_timestamp)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

impl FromStr for Moment {
    type Err = jiff::Error;
    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        text.parse().map(Self::from_timestamp)
    }
}

impl TryFrom<String> for Moment {
    type Error = jiff::Error;
    fn try_from(text: String) -> Result<Self, jiff::Error> {
        text.parse()
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> String {
        moment.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_as_people_tell_them() {
        let then: Moment = "2026-01-01T00:00:00Z".parse().unwrap();
        let told = [-5, 0, 59, 60, 3599, 3600, 86_399, 86_400, 172_800, 1_000_000]
            .map(|seconds| then.add_duration(SignedDuration::from_secs(seconds)).age_since(then));
        assert_eq!(told, ["0 s", "0 s", "59 s", "1 min", "59 min", "1 h", "23 h", "1 day", "2 days", "11 days"]);
    }

    #[test]
    fn text_has_one_width_and_sorts_as_time_does() {
        let moments: Vec<Moment> = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:01.5Z"]
            .map(|text| text.parse().unwrap())
            .into();
        let texts: Vec<String> = moments.iter().map(Moment::to_string).collect();
        assert_eq!(texts[0], "2026-01-01T00:00:00.000000Z");
        assert!(texts.iter().all(|text| text.len() == texts[0].len()));
        assert!(texts.is_sorted() && moments.is_sorted());
        assert_eq!(Moment::now().to_string().parse::<Moment>().unwrap().to_string().len(), 27);
    }
}
