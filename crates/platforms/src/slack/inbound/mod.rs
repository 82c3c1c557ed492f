//! From an event of Slack to a message in the inbox.
//!
//! `webhook` and `sockets` verify and store what Slack sends (`signature`, `payload`), and only then
//! acknowledge it. `handle` takes the stored events in order: `classify` decides whether one is for us, `markup`
//! turns Slack's text into plain text, `context` gathers what the agent should know, `press` handles buttons.

pub mod classify;
pub(crate) mod context;
pub(crate) mod handle;
pub mod markup;
pub mod payload;
pub(crate) mod press;
pub mod signature;
pub(crate) mod sockets;
pub(crate) mod webhook;
