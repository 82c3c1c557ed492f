//! What was said goes to its platform, and what a platform said is kept.

pub mod draft;
pub mod event_writer;
pub mod outbox_sender;
