//! The context of a turn: the message, its conversation, and the conversations of this process.

use grove_agents::agent::CancelReason;
use grove_git::ProgressCallback;
use grove_store::{Conversation, ConversationRef, InboxMessage, TurnKey};
use tokio::sync::watch;

use crate::conversations::Conversations;

/// A message, its conversation, and the turn in which the message is handled.
#[derive(Clone)]
pub struct TurnContext<'a> {
    pub conversations: &'a Conversations,
    pub conversation: &'a Conversation,
    pub message: &'a InboxMessage,
    /// The proof that this process holds the turn; every write of the turn needs it.
    pub key: &'a TurnKey,
    /// The reason to stop, once there is one.
    pub cancelled: watch::Receiver<Option<CancelReason>>,
    /// Called when a remote is slow, and with the progress of clones, fetches and checkouts.
    pub on_progress: ProgressCallback,
}

impl TurnContext<'_> {
    /// Returns the channel in which the message opens a thread: what is chosen there holds for later threads.
    pub fn opened_channel(&self) -> Option<ConversationRef> {
        let channel = self.conversation.parent.clone().filter(|_| self.message.seq == 1)?;
        Some(ConversationRef { platform: self.conversation.platform.clone(), id: channel })
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.borrow().is_some()
    }

    /// Waits until the turn is cancelled.
    pub async fn wait_for_cancellation(&self) {
        drop(self.cancelled.clone().wait_for(Option::is_some).await);
    }

    /// Tells whether the program shuts down.
    pub fn is_shutting_down(&self) -> bool {
        *self.conversations.ending.borrow()
    }

    /// Waits until the program begins to shut down.
    pub async fn wait_for_shutdown(&self) {
        drop(self.conversations.ending.subscribe().wait_for(|ending| *ending).await);
    }
}
