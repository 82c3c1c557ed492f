//! Messages as HTML, with everything that the sender wrote escaped: fenced code and `code` are formatted, and
//! the rest is shown as it is. maud escapes every piece.

use maud::{Markup, html};

use super::markdown::render_markdown;

/// The longest text that is shown; of a longer one, only its end is shown.
const MAX_SHOWN_TEXT_BYTES: usize = 64 * 1024;

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
enum TextPart<'a> {
    Words(&'a str),
    Code(&'a str),
}

/// Splits at lines that begin with three backticks; an unclosed fence extends to the end.
fn split_code_fences(text: &str) -> Vec<TextPart<'_>> {
    let (mut found, mut start, mut at, mut inside) = (Vec::new(), 0, 0, false);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            let piece = &text[start..at];
            if inside {
                found.push(TextPart::Code(piece));
            } else if !piece.trim().is_empty() {
                found.push(TextPart::Words(piece));
            }
            inside = !inside;
            start = at + line.len();
        }
        at += line.len();
    }
    let rest = &text[start..];
    if inside {
        found.push(TextPart::Code(rest));
    } else if !rest.trim().is_empty() {
        found.push(TextPart::Words(rest));
    }
    found
}

/// Renders a message as it was typed, or the output of a shell.
pub fn render_message(text: &str) -> Markup {
    render_end(text, |text| {
        html! {
            @for part in split_code_fences(text) {
                @match part {
                    TextPart::Words(words) => p { (render_sentence(words.trim_matches('\n'))) },
                    TextPart::Code(code) => pre tabindex="0" { code { (code.trim_end_matches('\n')) } },
                }
            }
        }
    })
}

/// Renders the answer of an agent.
pub fn render_answer(text: &str) -> Markup {
    render_end(text, render_markdown)
}

/// Renders as much of the end of a text as is shown.
fn render_end(text: &str, render: impl Fn(&str) -> Markup) -> Markup {
    let over = text.len().saturating_sub(MAX_SHOWN_TEXT_BYTES);
    let start = (over..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    html! {
        @if start > 0 { p class="dim" { "The first " (start) " bytes are not shown here." } }
        (render(&text[start..]))
    }
}

/// Renders text with `code` in it. Code is within one line, and an unclosed backtick is an ordinary
/// character.
pub fn render_sentence(text: &str) -> Markup {
    html! {
        @for line in text.split_inclusive('\n') {
            @let pieces: Vec<&str> = line.split('`').collect();
            @for (index, piece) in pieces.iter().enumerate() {
                @if index % 2 == 0 { (piece) }
                @else if index + 1 == pieces.len() { "`" (piece) }
                @else { code { (piece) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_is_html() {
        let said = "<script>alert(1)</script>\n```html\n<b onclick=\"x\">&amp;</b>\n```\nand `<i>`";
        let shown = render_message(said).into_string();
        assert_eq!(
            shown,
            "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\
             <pre tabindex=\"0\"><code>&lt;b onclick=&quot;x&quot;&gt;&amp;amp;&lt;/b&gt;</code></pre>\
             <p>and <code>&lt;i&gt;</code></p>"
        );
    }

    #[test]
    fn unclosed_fences_and_backticks_are_shown() {
        assert_eq!(split_code_fences("a\n```\nb"), [TextPart::Words("a\n"), TextPart::Code("b")]);
        assert_eq!(split_code_fences("```\n```\n"), [TextPart::Code("")]);
        assert_eq!(split_code_fences("\n"), []);
        assert_eq!(render_sentence("a `b` c `d").into_string(), "a <code>b</code> c `d");
        assert_eq!(render_sentence("a `\nb` c").into_string(), "a `\nb` c");
        assert_eq!(render_sentence("").into_string(), "");
    }

    #[test]
    fn of_a_long_text_its_end_is_shown() {
        let long = format!("{}end", "é".repeat(MAX_SHOWN_TEXT_BYTES));
        for shown in [render_message(&long), render_answer(&long)] {
            let shown = shown.into_string();
            assert!(shown.ends_with("end</p>") && shown.contains("bytes are not shown here"), "{}", &shown[..80]);
            assert!(shown.len() < MAX_SHOWN_TEXT_BYTES + 200);
        }
    }
}
