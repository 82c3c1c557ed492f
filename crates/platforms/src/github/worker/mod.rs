//! Handles stored events: threads in parallel, the events of one thread in order.

mod edits;
pub mod events;
mod handle;
mod permissions;
pub mod poll;
pub mod poll_events;
mod poll_fetch;
pub mod pull_requests;
mod routing;
mod thread_context;
