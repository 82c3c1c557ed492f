//! Markdown for a terminal, line by line: an answer is shown while it is made.

use owo_colors::OwoColorize;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// Renders the lines of a text, one after the other.
#[derive(Debug, Default)]
pub struct MarkdownLines {
    /// The fence of the code block that is open: its character and its length.
    fence: Option<(char, usize)>,
}

impl MarkdownLines {
    /// Renders the next line, which has no line break.
    pub fn render_line(&mut self, line: &str) -> String {
        let text = line.trim();
        match (self.fence, fence_of(text)) {
            (Some((open, length)), Some((c, count))) if c == open && count >= length && text.len() == count => {
                self.fence = None;
                line.dimmed().to_string()
            }
            (Some(_), _) => line.to_owned(),
            (None, Some(fence)) => {
                self.fence = Some(fence);
                line.dimmed().to_string()
            }
            (None, None) => match heading_text(text) {
                Some(heading) => style_inline(heading, true),
                None => {
                    let (prefix, text) = split_prefix(line);
                    format!("{prefix}{}", style_inline(text, false))
                }
            },
        }
    }
}

/// Returns the character and the length of the fence that a line begins with.
fn fence_of(text: &str) -> Option<(char, usize)> {
    let c = text.chars().next().filter(|c| "`~".contains(*c))?;
    let count = text.chars().take_while(|next| *next == c).count();
    let is_span = c == '`' && text[count..].contains('`');
    (count >= 3 && !is_span).then_some((c, count))
}

fn heading_text(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    let is_heading = (1..=6).contains(&level) && rest.starts_with(' ');
    is_heading.then(|| rest.trim().trim_end_matches('#').trim_end())
}

/// Splits a line into indentation, marks of quotes and lists, and the text behind them.
fn split_prefix(line: &str) -> (&str, &str) {
    let mut rest = line.trim_start();
    loop {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let after = match rest.chars().next() {
            Some('>') => Some(&rest[1..]),
            Some('-' | '*' | '+') => rest[1..].strip_prefix(' '),
            Some('0'..='9') => digits.strip_prefix(". ").or_else(|| digits.strip_prefix(") ")),
            _ => None,
        };
        let Some(after) = after else { return line.split_at(line.len() - rest.len()) };
        rest = after.trim_start();
    }
}

/// Renders emphasis, code and links within a line. A line that is no plain text, such as a rule, stays as it is.
fn style_inline(text: &str, strong: bool) -> String {
    let (mut shown, mut bold, mut italic, mut struck) = (String::new(), usize::from(strong), 0usize, 0usize);
    let mut links: Vec<(String, String)> = Vec::new();
    for event in Parser::new_ext(text, pulldown_cmark::Options::ENABLE_STRIKETHROUGH) {
        match event {
            Event::Start(Tag::Strong) => bold += 1,
            Event::End(TagEnd::Strong) => bold -= 1,
            Event::Start(Tag::Emphasis) => italic += 1,
            Event::End(TagEnd::Emphasis) => italic -= 1,
            Event::Start(Tag::Strikethrough) => struck += 1,
            Event::End(TagEnd::Strikethrough) => struck -= 1,
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push((dest_url.into_string(), String::new()));
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                if let Some((address, text)) = links.pop().filter(|(address, text)| address != text) {
                    let address = if text.is_empty() { address } else { format!(" ({address})") };
                    shown.push_str(&address.dimmed().to_string());
                }
            }
            Event::Text(part) | Event::Html(part) | Event::InlineHtml(part) => {
                links.iter_mut().for_each(|(_, text)| text.push_str(&part));
                let mut part = part.into_string();
                for (depth, style) in [
                    (bold, (|text| text.bold().to_string()) as fn(&str) -> String),
                    (italic, |text| text.italic().to_string()),
                    (struck, |text| text.strikethrough().to_string()),
                ] {
                    if depth > 0 {
                        part = style(&part);
                    }
                }
                shown.push_str(&part);
            }
            Event::Code(code) => {
                links.iter_mut().for_each(|(_, text)| text.push_str(&code));
                shown.push_str(&code.cyan().to_string());
            }
            Event::Start(Tag::Paragraph | Tag::HtmlBlock) | Event::End(TagEnd::Paragraph | TagEnd::HtmlBlock) => {}
            Event::Start(_)
            | Event::End(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::Rule
            | Event::TaskListMarker(_)
            | Event::FootnoteReference(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_) => return text.to_owned(),
        }
    }
    // The definition of a link is no text, but a person may want to see it.
    if shown.is_empty() { text.to_owned() } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_colours_line_by_line() {
        let mut lines = MarkdownLines::default();
        for (line, shown) in [
            ("# The *title* #", "\x1b[1mThe \x1b[0m\x1b[3m\x1b[1mtitle\x1b[0m\x1b[0m"),
            ("Fix **this** and `that`", "Fix \x1b[1mthis\x1b[0m and \x1b[36mthat\x1b[39m"),
            ("  - a **b**", "  - a \x1b[1mb\x1b[0m"),
            ("> 1. __x__", "> 1. \x1b[1mx\x1b[0m"),
            ("* snake_case_name 2 * 3", "* snake_case_name 2 * 3"),
            ("[docs](https://x.org)", "docs\x1b[2m (https://x.org)\x1b[0m"),
            ("<https://x.org>", "https://x.org"),
            ("[1]: https://x.org", "[1]: https://x.org"),
            ("---", "---"),
            ("| a | b |", "| a | b |"),
            ("", ""),
            ("a <b>c</b> &amp; d", "a <b>c</b> & d"),
            ("```rust", "\x1b[2m```rust\x1b[0m"),
            ("let a = **b; // `x`", "let a = **b; // `x`"),
            ("# no heading", "# no heading"),
            ("~~~", "~~~"),
            ("```", "\x1b[2m```\x1b[0m"),
            ("**after**", "\x1b[1mafter\x1b[0m"),
            ("```code``` in a line", "\x1b[36mcode\x1b[39m in a line"),
        ] {
            assert_eq!(lines.render_line(line), shown, "{line}");
        }
    }
}
