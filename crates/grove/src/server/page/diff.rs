//! The changes in an environment, new files included.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use grove_git::diff::DiffOptions;
use maud::{Markup, html};

use super::super::ServerState;
use super::super::api::worktrees::resolve_environment;
use super::super::fault::HttpError;

/// The part of a diff that is shown; a browser gets slow with more.
const MAX_SHOWN_DIFF_BYTES: usize = 256 * 1024;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/page/worktrees/{id}/diff", get(show_diff))
}

/// Renders the inside of the dialog.
async fn show_diff(State(app): State<Arc<ServerState>>, Path(id): Path<String>) -> Result<Markup, HttpError> {
    let (codebase, environment) = resolve_environment(&app, &id).await?;
    let diff = app.conversations.environments.diff_environment(&codebase, &environment, DiffOptions::default()).await?;
    let text = app.conversations.redactor.redact_text(&String::from_utf8_lossy(&diff.text));
    let (shown, is_cut) = first_lines(&text, MAX_SHOWN_DIFF_BYTES);
    Ok(html! {
        h2 id="dialog-title" { "Changes in " code { (environment.branch) } }
        @if shown.is_empty() {
            p { "Nothing has changed since the work began." }
        } @else {
            pre class="diff" tabindex="0" { code { @for line in shown.lines() { (render_line(line)) } } }
        }
        @if is_cut {
            p { "The rest is too long to be shown here; " code { "grove worktree diff " (environment.branch) } " shows all of it." }
        }
        @if diff.nested_repositories > 0 { p { "Repositories inside are left out." } }
        form method="dialog" class="choice" { button class="button" autofocus { "Close" } }
    })
}

fn render_line(line: &str) -> Markup {
    let class = match line.as_bytes() {
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => "file",
        [b'+', ..] => "added",
        [b'-', ..] => "removed",
        [b'@', b'@', ..] => "hunk",
        [b' ', ..] | [] => "same",
        _ => "file",
    };
    html! { span class=(class) { (line) "\n" } }
}

/// Returns the whole lines that fit, and whether lines are missing.
fn first_lines(text: &str, most: usize) -> (&str, bool) {
    if text.len() <= most {
        return (text, false);
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let end = text[..end].rfind('\n').map_or(end, |at| at + 1);
    (&text[..end], true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_diff_is_cut_between_lines() {
        assert_eq!(first_lines("ab\ncd\n", 6), ("ab\ncd\n", false));
        assert_eq!(first_lines("ab\ncd\n", 5), ("ab\n", true));
        assert_eq!(first_lines("äöü", 3), ("ä", true));
        assert_eq!(first_lines("", 3), ("", false));
    }
}
