//! From the outbox to Telegram. `markdown` is pure.

pub mod markdown;
pub(crate) mod messages;
