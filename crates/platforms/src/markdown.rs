//! Which part of a text is code, and which a reader does not see.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A text, looked at as GitHub's kind of Markdown.
#[derive(Debug, Default)]
pub struct Layers {
    /// Code spans and code blocks.
    code: Vec<Range<usize>>,
    /// What stands in `<code>`, `<pre>` or `<tt>`.
    html_code: Vec<Range<usize>>,
    /// HTML comments.
    comments: Vec<Range<usize>>,
}

/// The elements of HTML that hold code.
const CODE_TAGS: [&str; 3] = ["code", "pre", "tt"];

pub fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

impl Layers {
    pub fn of(text: &str) -> Self {
        let mut layers = Self::default();
        let mut open: Option<(&'static str, usize)> = None;
        for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
            match event {
                Event::Code(_) | Event::Start(Tag::CodeBlock(_)) => layers.code.push(range),
                Event::InlineHtml(_) => layers.html(text, range, &mut open),
                Event::Start(Tag::HtmlBlock) => layers.html(text, range, &mut open),
                // What a paragraph leaves open ends with it.
                Event::End(TagEnd::Paragraph) => open = None,
                _ => {}
            }
            if layers.comments.last().is_some_and(|comment| comment.end == text.len()) {
                break;
            }
        }
        layers
    }

    /// Reads the tags in a piece of HTML.
    fn html(&mut self, text: &str, zone: Range<usize>, open: &mut Option<(&'static str, usize)>) {
        let mut at = zone.start;
        while let Some(found) = text[at..zone.end].find('<') {
            let start = at + found;
            let rest = &text[start..zone.end];
            at = start + 1;
            if let Some(inside) = rest.strip_prefix("<!--") {
                let end = match comment_end(inside) {
                    Some(length) => start + "<!--".len() + length,
                    // Nothing ends it: the rest of the page is not shown.
                    None => text.len(),
                };
                self.comments.push(start..end);
                at = end.min(zone.end);
            } else if let Some((_, began)) = open.take_if(|(tag, _)| is_tag(rest, "</", tag)) {
                self.html_code.push(began..start);
            } else if open.is_none() {
                *open = CODE_TAGS.into_iter().find(|tag| is_tag(rest, "<", tag)).map(|tag| (tag, start));
            }
        }
    }

    /// Whether Markdown shows this place as code.
    pub fn is_code(&self, at: usize) -> bool {
        within(&self.code, at)
    }

    /// Whether people read this place as their words: it is neither code nor a comment.
    pub fn is_prose(&self, at: usize) -> bool {
        !within(&self.code, at) && !within(&self.html_code, at) && !within(&self.comments, at)
    }

    pub fn comments(&self) -> &[Range<usize>] {
        &self.comments
    }
}

/// How far a comment goes, from behind its `<!--`.
fn comment_end(inside: &str) -> Option<usize> {
    for short in [">", "->"] {
        if inside.starts_with(short) {
            return Some(short.len());
        }
    }
    inside.find("-->").map(|at| at + "-->".len())
}

fn is_tag(text: &str, opening: &str, name: &str) -> bool {
    let Some(rest) = text.strip_prefix(opening) else { return false };
    let Some((start, rest)) = rest.split_at_checked(name.len()) else { return false };
    start.eq_ignore_ascii_case(name) && !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-')
}

/// The ranges come in order and have nothing in common.
fn within(ranges: &[Range<usize>], at: usize) -> bool {
    let before = ranges.partition_point(|range| range.start <= at);
    ranges[..before].last().is_some_and(|range| range.contains(&at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with everything that is not prose replaced by dots.
    fn prose(text: &str) -> String {
        let layers = Layers::of(text);
        text.char_indices().map(|(at, c)| if c == '\n' || layers.is_prose(at) { c } else { '.' }).collect()
    }

    #[test]
    fn code_and_comments_are_not_prose() {
        for (text, left) in [
            ("a `b` c", "a ... c"),
            ("a ``b ` c`` d", "a ......... d"),
            ("a\n\n```rust\nb\n```\n\nc", "a\n\n.......\n.\n...\n\nc"),
            ("a\n\n~~~\nb\n~~~~\nc", "a\n\n...\n.\n....\nc"),
            ("a\n\n```\nb", "a\n\n...\n."),
            ("a\n\n    b\n\nc", "a\n\n    .\n\nc"),
            ("- x\n\n  ```\n  b\n  ```\n- c", "- x\n\n  ...\n...\n.....\n- c"),
            ("> ```\n> b\n> ```\n\nc", "> ...\n...\n.....\n\nc"),
            ("a <!-- b --> c", "a .......... c"),
            ("<!-- b\n\nb --> c", "......\n\n..... c"),
            ("<!-- b\n\nb", "......\n\n."),
            ("<!-- b\n\n<!-- c -->\n\n`d` e", "......\n\n..........\n\n... e"),
            ("<div>\n<!-- b\n\n`d` e", "<div>\n......\n\n....."),
            ("a <!-- b", "a <!-- b"),
            ("a `<!-- b` c", "a ........ c"),
            ("a <code>b</code> c", "a .......</code> c"),
            ("<PRE>\nb\n</PRE>\nc", ".....\n.\n</PRE>\nc"),
            ("a <code>b\n\nc", "a <code>b\n\nc"),
            ("<codex>b</codex>", "<codex>b</codex>"),
            ("a \\`b\\` c", "a \\`b\\` c"),
            ("| a |\n|---|\n| `b` c |", "| a |\n|---|\n| ... c |"),
            ("<details>\n\n`b`\n\n</details>", "<details>\n\n...\n\n</details>"),
            ("<div><!-- b --> a</div>", "<div>.......... a</div>"),
        ] {
            assert_eq!(prose(text), left, "{text}");
        }
    }
}
