//! The first page: a conversation with its live stream, and the environments.
//!
//! The server renders everything; htmx puts fragments in their place, and `assets/app.js` adds the live
//! stream and the keyboard. Messages are sent through the JSON API, as all other clients send them.
//!
//! * [`home`]: the page; [`layout`]: the frame of every page
//! * [`chat`], [`conversations`], [`worktrees`], [`removal`]: its fragments
//! * [`text`]: messages as HTML, with everything that the sender wrote escaped
//! * [`time`]: times as `3 min ago`
//! * [`login_page`]: pages for a browser without access
//! * [`assets`], [`headers`]: files, and the headers of every answer

mod assets;
mod chat;
mod conversations;
pub mod headers;
mod home;
mod layout;
pub mod login_page;
mod removal;
mod text;
mod time;
mod worktrees;

use std::sync::Arc;

use axum::Router;
use serde::Deserialize;

use super::ServerState;

/// The platform of this page's conversations.
const WEB_PLATFORM: &str = "web";

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new()
        .merge(home::routes())
        .merge(chat::routes())
        .merge(conversations::routes())
        .merge(worktrees::routes())
        .merge(removal::routes())
}

/// Routes that need no access: files that are the same for all users, so that the page for a browser without
/// access looks like the others.
pub fn open_routes() -> Router<Arc<ServerState>> {
    assets::routes()
}

/// The conversation that a request names.
#[derive(Deserialize)]
struct ConversationQuery {
    c: Option<String>,
}

/// Returns the address of a conversation.
fn address_of(conversation: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let encoded = conversation.bytes().map(|byte| match byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    format!("/?c={}", encoded.collect::<String>())
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_conversation_has_an_address() {
        assert_eq!(super::address_of("web-1a"), "/?c=web-1a");
        assert_eq!(super::address_of("a&b=\"é"), "/?c=a%26b%3D%22%C3%A9");
    }
}
