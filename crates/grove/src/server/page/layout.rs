//! What is around every page.

use maud::{DOCTYPE, Markup, html};

/// Nothing inline and nothing evaluated, as the policy in [`super::headers`] demands, and no page kept in
/// the browser's storage.
const HTMX: &str =
    r#"{"includeIndicatorStyles":false,"allowEval":false,"historyEnabled":false,"selfRequestsOnly":true}"#;

fn head(title: &str, more: &Markup) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            title { (title) }
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
            link rel="stylesheet" href="/assets/app.css";
            (more)
        }
    }
}

/// A page without anything that moves.
pub fn bare(title: &str, more: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, more))
            body class="bare" { (body) }
        }
    }
}

pub fn page(conversation: &str, body: &Markup) -> Markup {
    let scripts = html! {
        meta name="htmx-config" content=(HTMX);
        script src="/assets/htmx.min.js" defer {}
        script src="/assets/app.js" defer {}
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            (head("Grovekeeper", &scripts))
            body data-conversation=(conversation) { (body) }
        }
    }
}
