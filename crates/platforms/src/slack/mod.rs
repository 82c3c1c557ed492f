//! Slack: messages come in by Socket Mode or the Events API, and answers go into the thread of the message.
//!
//! * [`api`]: requests to Slack, and the transfer of files.
//! * [`inbound`]: from an event to the inbox: webhooks and sockets store it, the handler turns it into a message.
//! * [`outbound`]: answers as messages, buttons, files and reactions.
//! * [`adapter`]: starts all of it. [`health`]: the state that people see.
//! * [`doctor`]: checks the settings.

mod adapter;
mod api;
pub mod doctor;
mod health;
mod inbound;
mod outbound;

pub use adapter::SlackAdapter;
pub use inbound::classify::{BotAccount, Relevance, classify_event};
pub use inbound::payload::{SlackPayload, parse_payload};
pub use inbound::signature::SigningSecret;

pub const SLACK_PLATFORM: &str = "slack";
