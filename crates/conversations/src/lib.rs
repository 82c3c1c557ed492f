//! Conversations, from a message to its answer.
//!
//! Modules import only from earlier modules in this list:
//!
//! * [`backoff`]: the pause before a retry.
//! * [`command_line`]: splits a message into the words of a command.
//! * [`replies`]: the texts that a person reads in a conversation, except refusals.
//! * [`linked_work`]: issues and pull requests that a message names by their address.
//! * [`title`]: conversations and worktrees in a few words.
//! * [`conversations`]: the conversations of this process.
//! * [`turn_context`]: the message of a turn and its conversation.
//! * [`custom`]: commands that a repository defines.
//! * [`words`]: the text of every refusal.
//! * [`commands`]: the slash commands.
//! * [`turn`]: one message, from the inbox to its answer.
//! * [`queue`]: which conversation has the next turn.
//! * [`delivery`]: sends answers to platforms, and stores events of platforms.

pub mod backoff;
pub mod command_line;
pub mod commands;
pub mod conversations;
pub mod custom;
pub mod delivery;
pub mod linked_work;
pub mod queue;
pub mod replies;
pub mod title;
pub mod turn;
pub mod turn_context;
pub mod words;
