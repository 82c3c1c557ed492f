//! Reactions that show how far a message is: 👀 when it is taken, then ✅ or ❌.

use grove_model::MessageStatus;

use crate::discord::adapter::DISCORD_PLATFORM;
use crate::discord::api::Snowflake;

/// 👀, escaped for an address.
pub const SEEN_EMOJI: &str = "%F0%9F%91%80";
/// ✅
const DONE_EMOJI: &str = "%E2%9C%85";
/// ❌
const FAILED_EMOJI: &str = "%E2%9D%8C";

/// Returns the id under which a message is accepted.
pub fn message_delivery(channel: Snowflake, message: Snowflake) -> String {
    format!("{DISCORD_PLATFORM}:{channel}:{message}")
}

/// Returns channel and message of such an id; `None` for interactions, which have no message.
pub fn parse_delivery(delivery: &str) -> Option<(Snowflake, Snowflake)> {
    let (channel, message) = delivery.strip_prefix(DISCORD_PLATFORM)?.strip_prefix(':')?.split_once(':')?;
    Some((channel.parse().ok()?, message.parse().ok()?))
}

/// Returns the reaction for an answered message; `None` if it still waits.
pub fn answered_emoji(status: MessageStatus) -> Option<&'static str> {
    match status {
        MessageStatus::Done => Some(DONE_EMOJI),
        MessageStatus::Refused | MessageStatus::Interrupted | MessageStatus::Failed => Some(FAILED_EMOJI),
        MessageStatus::Waiting | MessageStatus::Running | MessageStatus::Asked => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_names_its_message() {
        let delivery = message_delivery(Snowflake(1), Snowflake(2));
        assert_eq!(parse_delivery(&delivery), Some((Snowflake(1), Snowflake(2))));
        for other in ["discord:interaction:5", "slack:1:2", "discord", "discord:1", ""] {
            assert_eq!(parse_delivery(other), None, "{other}");
        }
    }
}
