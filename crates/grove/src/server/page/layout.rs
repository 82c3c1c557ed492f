//! The frame of every page.

use maud::{DOCTYPE, Markup, html};

/// Nothing inline and nothing evaluated, as the policy in [`super::headers`] demands, and no page in the
/// browser's storage.
const HTMX_CONFIG: &str =
    r#"{"includeIndicatorStyles":false,"allowEval":false,"historyEnabled":false,"selfRequestsOnly":true}"#;

fn render_head(title: &str, more: &Markup) -> Markup {
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

/// Renders a static page.
pub fn render_bare_page(title: &str, more: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (render_head(title, more))
            body class="bare" { (body) }
        }
    }
}

pub fn render_page(conversation: &str, title: Option<&str>, body: &Markup) -> Markup {
    let title = title.map(|title| format!("{title} · Grovekeeper")).unwrap_or_else(|| "Grovekeeper".to_owned());
    let scripts = html! {
        meta name="htmx-config" content=(HTMX_CONFIG);
        script src="/assets/htmx.min.js" defer {}
        script src="/assets/app.js" defer {}
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            (render_head(&title, &scripts))
            body data-conversation=(conversation) { (body) }
        }
    }
}
