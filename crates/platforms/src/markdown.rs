//! Finds the parts of a text that are code, and those that a reader does not see.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The parts of a text, parsed as GitHub's Markdown.
#[derive(Debug, Default)]
pub struct MarkdownLayers {
    /// Code spans and code blocks.
    code: Vec<Range<usize>>,
    /// Text in `<code>`, `<pre>` or `<tt>`.
    html_code: Vec<Range<usize>>,
    /// HTML comments.
    comments: Vec<Range<usize>>,
}

/// The HTML elements that contain code.
const CODE_TAGS: [&str; 3] = ["code", "pre", "tt"];

pub fn parser_options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

impl MarkdownLayers {
    pub fn from_text(text: &str) -> Self {
        let mut layers = Self::default();
        let mut open: Option<(&'static str, usize)> = None;
        for (event, range) in Parser::new_ext(text, parser_options()).into_offset_iter() {
            match event {
                Event::Code(_) | Event::Start(Tag::CodeBlock(_)) => layers.code.push(range),
                Event::InlineHtml(_) => layers.read_html_tags(text, range, &mut open),
                Event::Start(Tag::HtmlBlock) => layers.read_html_tags(text, range, &mut open),
                // An element that is left open ends with its paragraph.
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
    fn read_html_tags(&mut self, text: &str, zone: Range<usize>, open: &mut Option<(&'static str, usize)>) {
        let mut at = zone.start;
        while let Some(found) = text[at..zone.end].find('<') {
            let start = at + found;
            let rest = &text[start..zone.end];
            at = start + 1;
            if let Some(inside) = rest.strip_prefix("<!--") {
                let end = match comment_end(inside) {
                    Some(length) => start + "<!--".len() + length,
                    // The comment is not closed: the rest of the page is not shown.
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

    /// Tells whether Markdown shows this position as code.
    pub fn is_code(&self, at: usize) -> bool {
        is_within_ranges(&self.code, at)
    }

    /// Tells whether people read this position as prose: it is neither code nor a comment.
    pub fn is_prose(&self, at: usize) -> bool {
        !is_within_ranges(&self.code, at)
            && !is_within_ranges(&self.html_code, at)
            && !is_within_ranges(&self.comments, at)
    }

    pub fn comment_ranges(&self) -> &[Range<usize>] {
        &self.comments
    }
}

/// Returns the end of a comment, counted from after its `<!--`.
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

/// Tells whether a position is in one of the ranges, which are sorted and do not overlap.
fn is_within_ranges(ranges: &[Range<usize>], at: usize) -> bool {
    let before = ranges.partition_point(|range| range.start <= at);
    ranges[..before].last().is_some_and(|range| range.contains(&at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces everything that is not prose by dots.
    fn mask_non_prose(text: &str) -> String {
        let layers = MarkdownLayers::from_text(text);
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
            assert_eq!(mask_non_prose(text), left, "{text}");
        }
    }
}
