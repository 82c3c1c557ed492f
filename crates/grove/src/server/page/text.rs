//! What somebody said, as HTML in which nothing of theirs is HTML: fenced code and `code`, and the rest
//! as it is. maud escapes every piece.

use maud::{Markup, html};

/// The longest text that is shown; of a longer one, its end.
const LONGEST: usize = 64 * 1024;

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Words(&'a str),
    Code(&'a str),
}

/// Splits at lines that begin with three backticks; a fence that nobody closed goes to the end.
fn parts(text: &str) -> Vec<Part<'_>> {
    let (mut found, mut start, mut at, mut inside) = (Vec::new(), 0, 0, false);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            let piece = &text[start..at];
            if inside {
                found.push(Part::Code(piece));
            } else if !piece.trim().is_empty() {
                found.push(Part::Words(piece));
            }
            inside = !inside;
            start = at + line.len();
        }
        at += line.len();
    }
    let rest = &text[start..];
    if inside {
        found.push(Part::Code(rest));
    } else if !rest.trim().is_empty() {
        found.push(Part::Words(rest));
    }
    found
}

/// A message.
pub fn message(text: &str) -> Markup {
    let over = text.len().saturating_sub(LONGEST);
    let start = (over..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    html! {
        @if start > 0 { p class="dim" { "The first " (start) " bytes are not shown here." } }
        @for part in parts(&text[start..]) {
            @match part {
                Part::Words(words) => p { (sentence(words.trim_matches('\n'))) },
                Part::Code(code) => pre tabindex="0" { code { (code.trim_end_matches('\n')) } },
            }
        }
    }
}

/// Words with `code` in them. Code is within a line, and a backtick that nobody closed is one.
pub fn sentence(text: &str) -> Markup {
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
    fn nothing_that_somebody_says_is_html() {
        let said = "<script>alert(1)</script>\n```html\n<b onclick=\"x\">&amp;</b>\n```\nand `<i>`";
        let shown = message(said).into_string();
        assert_eq!(
            shown,
            "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\
             <pre tabindex=\"0\"><code>&lt;b onclick=&quot;x&quot;&gt;&amp;amp;&lt;/b&gt;</code></pre>\
             <p>and <code>&lt;i&gt;</code></p>"
        );
    }

    #[test]
    fn fences_and_backticks_that_nobody_closed_are_shown() {
        assert_eq!(parts("a\n```\nb"), [Part::Words("a\n"), Part::Code("b")]);
        assert_eq!(parts("```\n```\n"), [Part::Code("")]);
        assert_eq!(parts("\n"), []);
        assert_eq!(sentence("a `b` c `d").into_string(), "a <code>b</code> c `d");
        assert_eq!(sentence("a `\nb` c").into_string(), "a `\nb` c");
        assert_eq!(sentence("").into_string(), "");
    }

    #[test]
    fn of_a_long_text_its_end_is_shown() {
        let long = format!("{}end", "é".repeat(LONGEST));
        let shown = message(&long).into_string();
        assert!(shown.ends_with("end</p>") && shown.contains("bytes are not shown here"), "{}", &shown[..80]);
        assert!(shown.len() < LONGEST + 200);
    }
}
