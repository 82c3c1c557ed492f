//! From a gateway event to a message of a conversation.
//!
//! `gateway` stores what matters, `events` handles it: `classify` and `interaction` decide, `threads` opens the
//! thread, `context` gathers what the agent may see. `catch_up` finds messages that the gateway did not bring.

pub mod attachments;
pub mod catch_up;
pub mod classify;
pub mod context;
pub mod events;
pub mod gateway;
pub mod interaction;
pub mod session;
pub mod stored;
pub mod thread_name;
