//! Conversations, from a message to its answer.
//!
//! Imports go one way, from the end of this list to its beginning:
//!
//! * [`command_line`]: reading a message that begins with a slash.
//! * [`replies`]: every sentence that a person reads in a conversation.
//! * [`conversations`]: the conversations of this process.
//! * [`turn_context`]: the message of a turn and its conversation.
//! * [`custom`]: commands that a repository brings along.
//! * [`commands`]: what people can ask for with a slash.
//! * [`turn`]: one message, from the inbox to its answer.
//! * [`queue`]: which conversation has the next turn.
//! * [`delivery`]: answers on their way to a platform, events on their way in.

pub mod command_line;
pub mod commands;
pub mod conversations;
pub mod custom;
pub mod delivery;
pub mod queue;
pub mod replies;
pub mod turn;
pub mod turn_context;
