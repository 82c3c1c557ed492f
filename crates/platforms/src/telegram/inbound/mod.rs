//! From an update to a message in the inbox. `wire`, `text`, `classify` and `context` are pure.

pub mod classify;
pub(crate) mod context;
pub(crate) mod handle;
pub(crate) mod poll;
mod store;
mod text;
mod webhook;
pub mod wire;
