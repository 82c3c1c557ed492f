//! Delivers answers to platforms, and stores the events of platforms.

pub mod draft;
pub mod event_writer;
pub mod outbox_sender;
