//! What people read in a conversation.

mod replies;
