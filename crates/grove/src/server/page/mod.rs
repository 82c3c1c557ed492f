//! The first page: a conversation with its live stream, and the environments.
//!
//! The server renders everything; htmx puts fragments in their place, and `assets/app.js` adds the live
//! stream and the keyboard. Messages are sent through the JSON API, as everybody else sends them.
//!
//! * [`home`]: the page; [`layout`]: what is around every page
//! * [`chat`], [`conversations`], [`worktrees`], [`removal`]: its fragments
//! * [`text`]: what somebody said, as HTML in which nothing of theirs is HTML
//! * [`door`]: what a browser sees that is not let in
//! * [`assets`], [`headers`]: files, and what every answer carries

mod assets;
mod chat;
mod conversations;
pub mod door;
pub mod headers;
mod home;
mod layout;
mod removal;
mod text;
mod time;
mod worktrees;

use std::sync::Arc;

use axum::Router;
use serde::Deserialize;

use super::App;

/// The platform that conversations of this page belong to.
const PLATFORM: &str = "web";

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .merge(home::routes())
        .merge(chat::routes())
        .merge(conversations::routes())
        .merge(worktrees::routes())
        .merge(removal::routes())
}

/// Files that are the same for everybody, so that the page at the door looks like the others.
pub fn open_routes() -> Router<Arc<App>> {
    assets::routes()
}

/// Which conversation is meant.
#[derive(Deserialize)]
struct Which {
    c: Option<String>,
}

/// The address of a conversation.
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
