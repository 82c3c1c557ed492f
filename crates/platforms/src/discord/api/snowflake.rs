//! Discord's ids: numbers that grow with time, sent as text.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The first millisecond that an id can have, since 1970.
const DISCORD_EPOCH_MS: u64 = 1_420_070_400_000;
/// The bits of an id below its time.
const TIME_SHIFT: u32 = 22;

/// An id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Snowflake(pub u64);

impl Snowflake {
    /// Returns the smallest id of a time since 1970.
    pub fn at_time(since_1970: Duration) -> Self {
        let ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
        Self(ms.saturating_sub(DISCORD_EPOCH_MS).min(u64::MAX >> TIME_SHIFT) << TIME_SHIFT)
    }

    /// Returns an id that is this much older.
    pub fn minus(self, time: Duration) -> Self {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self((self.0 >> TIME_SHIFT).saturating_sub(ms) << TIME_SHIFT)
    }

    /// Returns its time in milliseconds since 1970.
    pub fn unix_ms(self) -> u64 {
        (self.0 >> TIME_SHIFT) + DISCORD_EPOCH_MS
    }
}

impl fmt::Display for Snowflake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Snowflake {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Serialize for Snowflake {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Snowflake {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Number(u64),
        }
        match Written::deserialize(deserializer)? {
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
            Written::Number(number) => Ok(Self(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_carry_their_time() {
        let id = Snowflake(175_928_847_299_117_063);
        assert_eq!(id.unix_ms(), 1_462_015_105_796);
        assert_eq!(Snowflake::at_time(Duration::from_millis(id.unix_ms())).unix_ms(), id.unix_ms());
        assert_eq!(id.minus(Duration::from_secs(60)).unix_ms(), id.unix_ms() - 60_000);
        assert_eq!(Snowflake(5).minus(Duration::MAX), Snowflake(0));
        assert_eq!(Snowflake::at_time(Duration::ZERO), Snowflake(0));
        assert_eq!(Snowflake::at_time(Duration::MAX).unix_ms(), (u64::MAX >> TIME_SHIFT) + DISCORD_EPOCH_MS);
    }

    #[test]
    fn an_id_is_text_or_a_number() {
        assert_eq!(serde_json::from_str::<Snowflake>("\"17\"").unwrap(), Snowflake(17));
        assert_eq!(serde_json::from_str::<Snowflake>("17").unwrap(), Snowflake(17));
        assert_eq!(serde_json::to_string(&Snowflake(17)).unwrap(), "\"17\"");
        for bad in ["\"x\"", "-1", "null", "{}", "1.5"] {
            assert!(serde_json::from_str::<Snowflake>(bad).is_err(), "{bad}");
        }
    }
}
