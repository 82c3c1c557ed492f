//! Conversations, from a message to its answer.
//!
//! Modules import only from earlier modules in this list:
//!
//! * [`command_line`]: parses messages that begin with a slash.
//! * [`replies`]: all texts that a person reads in a conversation.
//! * [`conversations`]: the conversations of this process.
//! * [`turn_context`]: the message of a turn and its conversation.
//! * [`custom`]: commands that a repository defines.
//! * [`commands`]: the slash commands.
//! * [`turn`]: one message, from the inbox to its answer.
//! * [`queue`]: which conversation has the next turn.
//! * [`delivery`]: sends answers to platforms, and stores events of platforms.

pub mod command_line;
pub mod commands;
pub mod conversations;
pub mod custom;
pub mod delivery;
pub mod queue;
pub mod replies;
pub mod turn;
pub mod turn_context;
