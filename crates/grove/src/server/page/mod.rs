//! The first page: a conversation with its live stream, and the environments.
//!
//! The server renders everything; htmx puts fragments in their place, and `assets/app.js` adds the live
//! stream and the keyboard. Messages are sent through the JSON API, as all other clients send them.
//!
//! * [`home`]: the page; [`layout`]: the frame of every page
//! * [`chat`], [`conversations`], [`worktrees`], [`diff`], [`removal`], [`settings`]: its fragments
//! * [`markdown`]: answers as HTML; [`text`]: all other messages, with everything that the sender wrote escaped
//! * [`time`]: times as `3 min ago`
//! * [`login_page`]: pages for a browser without access
//! * [`assets`], [`headers`]: files, and the headers of every answer

mod assets;
mod chat;
mod conversations;
mod diff;
pub mod headers;
mod home;
mod layout;
pub mod login_page;
mod markdown;
mod removal;
mod settings;
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
        .merge(diff::routes())
        .merge(removal::routes())
        .merge(settings::routes())
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
    /// The codebase that a new conversation is about.
    codebase: Option<String>,
}

/// Returns the address of a conversation.
fn address_of(conversation: &str) -> String {
    format!("/{}", page_query(&[("c", conversation)]))
}

/// Returns the query of the page that opens a codebase: its last conversation, or a new one.
pub fn codebase_query(codebase: &str) -> String {
    page_query(&[("codebase", codebase)])
}

fn page_query(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::for_suffix("?".to_owned(), 1).extend_pairs(pairs).finish()
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_conversation_has_an_address() {
        assert_eq!(super::address_of("web-1a"), "/?c=web-1a");
        assert_eq!(super::address_of("a&b=\"é +"), "/?c=a%26b%3D%22%C3%A9+%2B");
        assert_eq!(super::codebase_query("acme/app"), "?codebase=acme%2Fapp");
    }
}
