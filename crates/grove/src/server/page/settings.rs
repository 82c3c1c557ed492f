//! The notice about settings that are not in use.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use grove_environments::words::settings_notice;
use maud::{Markup, html};

use super::super::ServerState;
use super::text;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/page/settings", get(show_settings_notice))
}

async fn show_settings_notice(State(app): State<Arc<ServerState>>) -> Markup {
    render_settings_notice(&app)
}

pub fn render_settings_notice(app: &ServerState) -> Markup {
    let notice = settings_notice(&app.conversations.settings.last_reload());
    html! { @if let Some(notice) = notice { span { (text::render_sentence(&notice)) } } }
}
