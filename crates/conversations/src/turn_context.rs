//! The context of a turn: the message, its conversation, and the conversations of this process.

use grove_git::WaitCallback;
use grove_store::{Conversation, InboxMessage};

use crate::conversations::Conversations;

/// A message and its conversation.
pub struct TurnContext<'a> {
    pub conversations: &'a Conversations,
    pub conversation: &'a Conversation,
    pub message: &'a InboxMessage,
    /// Called when a remote delays a creation.
    pub on_wait: WaitCallback,
}
