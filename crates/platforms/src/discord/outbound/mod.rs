//! What the bot shows on Discord: answers with buttons, reactions, and its slash commands.

pub mod messages;
pub mod reactions;
pub mod slash_commands;
