//! Discord: the gateway brings messages and pressed buttons, the REST API takes answers.
//!
//! * [`adapter`]: what runs while the server runs.
//! * [`api`]: requests to the REST API, and the objects that Discord sends.
//! * [`inbound`]: from a gateway event to a message of a conversation.
//! * [`outbound`]: answers, buttons, reactions and the declaration of the slash commands.
//! * [`doctor`]: checks of the setup.

pub mod adapter;
pub mod api;
pub mod doctor;
pub mod inbound;
pub mod outbound;

pub use adapter::{DISCORD_PLATFORM, DiscordAdapter};
