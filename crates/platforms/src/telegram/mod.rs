//! Telegram: messages come in, answers go out.
//!
//! * [`adapter`]: our account, its state, and what runs at the same time.
//! * [`inbound`]: updates, polled for or sent by Telegram, stored and turned into messages.
//! * [`outbound`]: answers, as MarkdownV2 or plain text.
//! * [`doctor`]: Telegram's part of `grove doctor`.

mod adapter;
mod api;
pub mod doctor;
pub mod inbound;
pub mod outbound;
mod place;

pub use adapter::{TELEGRAM_PLATFORM, TelegramAdapter};
