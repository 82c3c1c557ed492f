//! What a turn is about: the message, its conversation, and the conversations of this process.

use grove_git::OnWait;
use grove_store::{Conversation, Message};

use crate::conversations::Talks;

/// What somebody said, and where.
pub struct Desk<'a> {
    pub talks: &'a Talks,
    pub conversation: &'a Conversation,
    pub message: &'a Message,
    /// Is told of a remote that lets a creation wait.
    pub on_wait: OnWait,
}
