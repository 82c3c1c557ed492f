//! What people read in a conversation.

mod commands;
mod replies;
