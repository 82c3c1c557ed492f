//! What a browser sees that is not let in: the same words as the API's, as a page.

use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::{layout, text};

/// Whether somebody looks at it: a browser that goes to a page asks for HTML by name.
pub fn is_page(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    let html = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    method == Method::GET
        && !uri.path().starts_with("/api/")
        && html.into_iter().any(|kinds| kinds.contains("text/html"))
}

/// On to the page, for whoever was just let in.
pub fn open() -> Markup {
    let on = html! { meta http-equiv="refresh" content="0; url=/"; };
    layout::bare("Grovekeeper", &on, &html! { main class="door" { a href="/" { "Open the page" } } })
}

/// Nobody is let in without the cookie or the token.
pub fn closed() -> Response {
    page(
        StatusCode::UNAUTHORIZED,
        "This grove is locked",
        "Run `grove up` in a terminal and follow the link that it prints.",
        "The link works once and lets this browser in, under the host name that it leads to.",
    )
}

/// A link that does not work any more.
pub fn used_link() -> Response {
    page(
        StatusCode::UNAUTHORIZED,
        "This link was used already, or is too old",
        "Run `grove up` again for a new one.",
        "If this browser was let in before, the page opens without a link.",
    )
}

/// Something went wrong that has to be put right first.
pub fn trouble(status: StatusCode, message: &str, hint: &str) -> Response {
    page(status, message, hint, "")
}

fn page(status: StatusCode, title: &str, what_to_do: &str, why: &str) -> Response {
    (status, layout::bare(title, &html! {}, &words(title, what_to_do, why))).into_response()
}

fn words(title: &str, what_to_do: &str, why: &str) -> Markup {
    html! {
        main class="door" {
            img src="/assets/icon.svg" alt="" width="48" height="48";
            h1 { (title) }
            p { (text::sentence(what_to_do)) }
            @if !why.is_empty() { p class="dim" { (text::sentence(why)) } }
            p { a href="/" { "Try again" } }
        }
    }
}
