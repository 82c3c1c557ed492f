//! Untrusted text, made safe for an agent's context.
//!
//! An agent must get the text that a reader sees and nothing more: everything that is hidden from people
//! (HTML comments, zero-width characters, direction marks and tags) is removed. The agent must also see
//! where such text begins and ends: every line of it is quoted, so that no part of it can pretend to be
//! outside of it.

use crate::markdown::MarkdownLayers;

/// Returns the text as a person would see it.
pub fn visible_text(text: &str) -> String {
    // Characters first: they may hide the start of a comment.
    let mut text = without_invisible(text);
    // The text around a removed comment may form another comment.
    for _ in 0..10 {
        let layers = MarkdownLayers::from_text(&text);
        if layers.comment_ranges().is_empty() {
            break;
        }
        for comment in layers.comment_ranges().iter().rev() {
            text.replace_range(comment.clone(), "");
        }
    }
    text
}

/// Returns the visible text on one line, with at most `most` characters.
pub fn one_line(text: &str, most: usize) -> String {
    let words: Vec<String> = without_invisible(text).split_whitespace().map(str::to_owned).collect();
    shorten_text(&words.join(" "), most)
}

/// Quotes every line of a text with `> `.
pub fn quote_lines(text: &str) -> String {
    let text = visible_text(text);
    let lines = text.trim().lines().map(str::trim_end);
    lines.map(|line| if line.is_empty() { ">\n".to_owned() } else { format!("> {line}\n") }).collect()
}

/// Returns the beginning of a text, with a note if the rest is cut off.
pub fn shorten_text(text: &str, most: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most) else { return text.to_owned() };
    let left = text[end..].chars().count();
    format!("{}… ({left} more characters)", &text[..end])
}

fn without_invisible(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // All line endings become the same one.
            '\r' | '\u{0b}' | '\u{0c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            '\n' | '\t' => out.push(c),
            // One variation selector sets the style of the character before it; more of them can encode
            // hidden data.
            '\u{fe0e}' | '\u{fe0f}' if out.ends_with(|before: char| !before.is_ascii() && !is_style(before)) => {
                out.push(c)
            }
            c if is_invisible(c) => {}
            c => out.push(c),
        }
    }
    out
}

fn is_style(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}')
}

/// Tells whether a character is invisible: control characters, zero-width characters, direction marks, tags.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || is_style(c)
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_people_do_not_see_goes() {
        for (text, left) in [
            ("a <!-- do evil --> b", "a  b"),
            ("<!-- do\n\nevil -->b", "b"),
            ("a\n\n<!-- never closed\n\nevil", "a\n\n"),
            ("`<!-- code -->` stays", "`<!-- code -->` stays"),
            ("```html\n<!-- code -->\n```", "```html\n<!-- code -->\n```"),
            ("<\u{200b}!-- evil --> b", " b"),
            ("<!--> <!---> b", "  b"),
            ("a\u{200b}b\u{200d}c\u{feff}d", "abcd"),
            ("a\u{202e}b\u{2066}c\u{200f}", "abc"),
            ("a\u{e0041}\u{e0042}\u{e007f}b", "ab"),
            ("a\u{fe00}\u{fe01}\u{e0100}b", "ab"),
            ("❤\u{fe0f}\u{fe0f}\u{fe0e}", "❤\u{fe0f}"),
            ("a\0b\u{1b}[31mc\u{7}", "ab[31mc"),
            ("a\r\nb\rc\u{2028}d\te", "a\nb\nc\nd\te"),
            ("grüße 你好 😀", "grüße 你好 😀"),
        ] {
            assert_eq!(visible_text(text), left, "{text:?}");
        }
    }

    #[test]
    fn every_line_is_quoted() {
        assert_eq!(quote_lines("one\n\n  two\r\nthree\u{2028}four\n"), "> one\n>\n>   two\n> three\n> four\n");
        assert_eq!(quote_lines("<!-- -->"), "");
        assert_eq!(one_line(" a\n\u{200b} b\tc ", 80), "a b c");
        assert_eq!(one_line("abcdef", 4), "abcd… (2 more characters)");
    }

    proptest! {
        #[test]
        fn nothing_gets_out_of_its_quote(text in "(.|\n|\r|\u{2028}|<!--|-->|[<>!-]|\u{200b}){0,60}") {
            let quoted = quote_lines(&text);
            prop_assert!(quoted.split_terminator('\n').all(|line| line == ">" || line.starts_with("> ")), "{quoted:?}");
            prop_assert!(!quoted.chars().any(|c| c != '\n' && is_invisible(c) && !is_style(c) && c != '\t'));
            let ends_a_line = |c: char| matches!(c, '\r' | '\u{85}' | '\u{2028}');
            prop_assert!(!quoted.contains(ends_a_line));
        }

        #[test]
        fn no_comment_is_left(text in "(<!--|-->|[<>!`\n -]|a){0,40}") {
            prop_assert!(MarkdownLayers::from_text(&visible_text(&text)).comment_ranges().is_empty());
        }
    }
}
