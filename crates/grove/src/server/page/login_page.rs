//! Pages for a browser without access: the same text as the API's answers.

use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::{codebase_query, layout, text};

/// Tells whether a browser opens a page: then the request asks for HTML by name.
pub fn is_page(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    let html = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    method == Method::GET
        && !uri.path().starts_with("/api/")
        && html.into_iter().any(|kinds| kinds.contains("text/html"))
}

/// Sends a browser that was just granted access on to the page, at the codebase that the link named.
pub fn render_logged_in(codebase: Option<&str>) -> Markup {
    let address = format!("/{}", codebase.map(codebase_query).unwrap_or_default());
    let on = html! { meta http-equiv="refresh" content={ "0; url=" (address) }; };
    layout::render_bare_page("Grovekeeper", &on, &html! { main class="door" { a href=(address) { "Open the page" } } })
}

/// Refuses a browser that has neither the cookie nor the token.
pub fn respond_locked() -> Response {
    respond_page(
        StatusCode::UNAUTHORIZED,
        "This grove is locked",
        "Run `grove up` in a terminal and follow the link that it prints.",
        "The link works once and lets this browser in, under the host name that it leads to.",
    )
}

/// Refuses a link that no longer works.
pub fn used_link() -> Response {
    respond_page(
        StatusCode::UNAUTHORIZED,
        "This link was used already, or is too old",
        "Run `grove up` again for a new one.",
        "If this browser was let in before, the page opens without a link.",
    )
}

/// Reports a problem that has to be fixed first.
pub fn respond_problem(status: StatusCode, message: &str, hint: &str) -> Response {
    respond_page(status, message, hint, "")
}

fn respond_page(status: StatusCode, title: &str, what_to_do: &str, why: &str) -> Response {
    (status, layout::render_bare_page(title, &html! {}, &render_message(title, what_to_do, why))).into_response()
}

fn render_message(title: &str, what_to_do: &str, why: &str) -> Markup {
    html! {
        main class="door" {
            img src="/assets/icon.svg" alt="" width="48" height="48";
            h1 { (title) }
            p { (text::render_sentence(what_to_do)) }
            @if !why.is_empty() { p class="dim" { (text::render_sentence(why)) } }
            p { a href="/" { "Try again" } }
        }
    }
}
