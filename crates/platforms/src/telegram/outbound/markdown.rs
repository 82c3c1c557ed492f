//! Converts an agent's Markdown to Telegram's MarkdownV2.
//!
//! MarkdownV2 is strict: a reserved character that is not escaped, or a mark that is not closed, makes
//! Telegram refuse the whole message. So the Markdown is parsed, and every character is written anew: text
//! escaped, marks opened and closed in order and never across the end of a line.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// The characters that have a meaning outside of code.
const RESERVED_CHARACTERS: &str = "_*[]()~`>#+-=|{}.!\\";
/// The addresses that a link may have.
const LINK_SCHEMES: [&str; 4] = ["http://", "https://", "mailto:", "tg://"];
/// The longest language of a code block.
const MAX_LANGUAGE_LENGTH: usize = 40;

/// Converts Markdown to MarkdownV2.
pub fn to_markdown_v2(markdown: &str) -> String {
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    let mut writer = MarkdownWriter::default();
    let mut table = None;
    for (event, range) in Parser::new_ext(markdown, options).into_offset_iter() {
        match event {
            // Only a fixed width shows the columns of a table, as they were written.
            Event::Start(Tag::Table(_)) => table = Some(range),
            Event::End(TagEnd::Table) => {
                if let Some(range) = table.take() {
                    writer.write_code_block("", &markdown[range]);
                }
            }
            _ if table.is_some() => {}
            event => writer.write_event(event),
        }
    }
    writer.finish()
}

/// A mark around text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TextStyle {
    Bold,
    Italic,
    Strikethrough,
    Link(String),
}

impl TextStyle {
    fn opening(&self) -> &'static str {
        match self {
            Self::Bold => "*",
            Self::Italic => "_",
            Self::Strikethrough => "~",
            Self::Link(_) => "[",
        }
    }

    fn closing(&self) -> String {
        match self {
            Self::Link(url) => format!("]({})", escape_characters(url, ")\\")),
            other => other.opening().to_owned(),
        }
    }
}

/// A list that is being written.
struct OpenList {
    /// The number of the next item of a numbered list.
    next: Option<u64>,
}

#[derive(Default)]
struct MarkdownWriter {
    out: String,
    /// The styles that the next text has.
    wanted: Vec<TextStyle>,
    /// The styles that are open in the text so far.
    open: Vec<TextStyle>,
    lists: Vec<OpenList>,
    quotes: usize,
    code_block: Option<(String, String)>,
    /// The addresses of links that cannot be links, to be shown behind their text.
    unusable: Vec<String>,
    /// The number of line ends before the next text.
    breaks: usize,
    /// The text at the beginning of the next line, such as that of a list.
    marker: String,
}

impl MarkdownWriter {
    fn write_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => self.end_tag(tag),
            Event::Text(text) => match &mut self.code_block {
                Some((_, code)) => code.push_str(&text),
                None => self.write_text(&text),
            },
            Event::Code(code) => self.write_code(&code),
            Event::Html(text) | Event::InlineHtml(text) => self.write_text(&text),
            Event::SoftBreak | Event::HardBreak => self.break_lines(1),
            Event::Rule => {
                self.break_lines(2);
                self.write_text("———");
                self.break_lines(2);
            }
            Event::TaskListMarker(done) => self.marker.push_str(if done { "☑ " } else { "☐ " }),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.write_text(&text);
            }
        }
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.break_lines(2);
                self.wanted.push(TextStyle::Bold);
                if level == HeadingLevel::H1 {
                    self.break_lines(2);
                }
            }
            Tag::Paragraph | Tag::HtmlBlock => self.break_lines(if self.lists.is_empty() { 2 } else { 1 }),
            Tag::BlockQuote(_) => {
                self.break_lines(2);
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => plain_language(&info),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code_block = Some((language, String::new()));
            }
            Tag::List(next) => {
                self.break_lines(if self.lists.is_empty() { 2 } else { 1 });
                self.lists.push(OpenList { next });
            }
            Tag::Item => self.start_item(),
            Tag::Emphasis => self.wanted.push(TextStyle::Italic),
            Tag::Strong => self.wanted.push(TextStyle::Bold),
            Tag::Strikethrough => self.wanted.push(TextStyle::Strikethrough),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.start_link(&dest_url),
            _ => {}
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.drop_style(|style| *style == TextStyle::Bold);
                self.break_lines(2);
            }
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.break_lines(if self.lists.is_empty() { 2 } else { 1 }),
            TagEnd::BlockQuote(_) => {
                self.close_styles();
                self.quotes = self.quotes.saturating_sub(1);
                self.break_lines(2);
            }
            TagEnd::CodeBlock => {
                if let Some((language, code)) = self.code_block.take() {
                    self.write_code_block(&language, &code);
                }
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.break_lines(if self.lists.is_empty() { 2 } else { 1 });
            }
            TagEnd::Item => self.break_lines(1),
            TagEnd::Emphasis => self.drop_style(|style| *style == TextStyle::Italic),
            TagEnd::Strong => self.drop_style(|style| *style == TextStyle::Bold),
            TagEnd::Strikethrough => self.drop_style(|style| *style == TextStyle::Strikethrough),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn start_item(&mut self) {
        self.break_lines(1);
        let indent = "  ".repeat(self.lists.len().saturating_sub(1));
        let sign = match self.lists.last_mut() {
            Some(OpenList { next: Some(number) }) => {
                let sign = format!("{number}. ");
                *number = number.saturating_add(1);
                sign
            }
            _ => "• ".to_owned(),
        };
        self.marker = format!("{indent}{sign}");
    }

    fn start_link(&mut self, url: &str) {
        let lower = url.to_lowercase();
        // Links do not nest: an image in a link is a part of its text.
        let is_inside = self.wanted.iter().any(|style| matches!(style, TextStyle::Link(_)));
        let usable = LINK_SCHEMES.iter().any(|scheme| lower.starts_with(scheme)) && !url.contains(['\n', '\r']);
        if usable && !is_inside {
            self.wanted.push(TextStyle::Link(url.to_owned()));
            self.unusable.push(String::new());
        } else {
            self.unusable.push(if is_inside { String::new() } else { url.to_owned() });
        }
    }

    fn end_link(&mut self) {
        match self.unusable.pop() {
            Some(url) if !url.is_empty() => self.write_text(&format!(" ({url})")),
            // The end of a link that is one; an image inside of it has pushed an empty text, too.
            Some(_) if !self.unusable.iter().any(String::is_empty) => {
                self.drop_style(|style| matches!(style, TextStyle::Link(_)));
            }
            _ => {}
        }
    }

    fn drop_style(&mut self, is_it: impl Fn(&TextStyle) -> bool) {
        if let Some(at) = self.wanted.iter().rposition(is_it) {
            self.wanted.remove(at);
        }
    }

    /// Ends the line, if it has not ended.
    fn break_lines(&mut self, count: usize) {
        self.breaks = self.breaks.max(count);
    }

    fn write_text(&mut self, text: &str) {
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                self.break_lines(1);
            }
            let line = line.trim_matches('\r');
            if !line.is_empty() {
                self.start_text();
                self.switch_styles();
                self.out.push_str(&escape_characters(line, RESERVED_CHARACTERS));
            }
        }
    }

    fn write_code(&mut self, code: &str) {
        // Code cannot be a part of a link, bold or italic.
        if self.wanted.iter().any(|style| matches!(style, TextStyle::Link(_))) {
            self.write_text(code);
            return;
        }
        if code.is_empty() {
            return;
        }
        self.start_text();
        self.close_styles();
        let code = escape_characters(&code.replace(['\n', '\r'], " "), "`\\");
        self.out.push('`');
        self.out.push_str(&code);
        self.out.push('`');
    }

    /// Writes a code block on lines of its own, outside of quotes and lists, where Telegram allows none.
    fn write_code_block(&mut self, language: &str, code: &str) {
        if code.trim().is_empty() {
            return;
        }
        let quotes = std::mem::take(&mut self.quotes);
        self.break_lines(1);
        self.write_marker_line();
        self.start_text();
        self.close_styles();
        let code = escape_characters(code.trim_end_matches(['\n', '\r']), "`\\");
        self.out.push_str(&format!("```{language}\n{code}\n```"));
        self.quotes = quotes;
        self.break_lines(1);
    }

    /// Writes the marker of a list item that begins with something else than text.
    fn write_marker_line(&mut self) {
        if !self.marker.trim().is_empty() {
            self.start_text();
            self.break_lines(1);
        }
    }

    /// Begins the line of the next text, if the last one has ended.
    fn start_text(&mut self) {
        let is_new_line = self.breaks > 0 || self.out.is_empty();
        if is_new_line {
            self.close_styles();
            if !self.out.is_empty() {
                let lines = std::mem::take(&mut self.breaks);
                // An empty line between the paragraphs of a quote belongs to it.
                let is_inside = self.quotes > 0 && self.last_line_is_quoted();
                let line = if is_inside { "\n>" } else { "\n" };
                self.out.push_str(&line.repeat(lines - 1));
                self.out.push('\n');
            }
            self.breaks = 0;
            if self.quotes > 0 {
                self.out.push('>');
            }
        }
        let marker = std::mem::take(&mut self.marker);
        self.out.push_str(&escape_characters(&marker, RESERVED_CHARACTERS));
    }

    fn last_line_is_quoted(&self) -> bool {
        self.out.rsplit('\n').next().is_some_and(|line| line.starts_with('>'))
    }

    /// Closes and opens styles so that exactly the wanted ones are open.
    fn switch_styles(&mut self) {
        let mut wanted: Vec<TextStyle> = Vec::new();
        for style in &self.wanted {
            if !wanted.contains(style) {
                wanted.push(style.clone());
            }
        }
        let same = self.open.iter().take_while(|style| wanted.contains(style)).count();
        self.close_styles_behind(same);
        for style in wanted {
            if !self.open.contains(&style) {
                self.out.push_str(style.opening());
                self.open.push(style);
            }
        }
    }

    fn close_styles(&mut self) {
        self.close_styles_behind(0);
    }

    fn close_styles_behind(&mut self, keep: usize) {
        while self.open.len() > keep {
            if let Some(style) = self.open.pop() {
                self.out.push_str(&style.closing());
            }
        }
    }

    fn finish(mut self) -> String {
        self.close_styles();
        self.out
    }
}

fn plain_language(info: &CowStr<'_>) -> String {
    let word = info.split([' ', '\t', ',', '{']).next().unwrap_or_default();
    let is_plain = word.len() <= MAX_LANGUAGE_LENGTH
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#' | '_' | '.'));
    if is_plain { word.to_owned() } else { String::new() }
}

fn escape_characters(text: &str, reserved: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if reserved.contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_markdown_v2() {
        for (markdown, expected) in [
            ("plain", "plain"),
            ("1 + 1 = 2. Done!", "1 \\+ 1 \\= 2\\. Done\\!"),
            ("**bold** *it* ~~gone~~ `a_b`", "*bold* _it_ ~gone~ `a_b`"),
            ("***both***", "_*both*_"),
            ("*a**b**c*", "_a*b*c_"),
            ("*a* *b*", "_a_ _b_"),
            ("**a `b` c**", "*a *`b`* c*"),
            ("# Title\n\ntext", "*Title*\n\ntext"),
            ("## A *b*\ntext", "*A _b_*\n\ntext"),
            ("- a\n- b\n  - c\n\n1. d\n2. e", "• a\n• b\n  • c\n\n1\\. d\n2\\. e"),
            ("- [ ] a\n- [x] b", "• ☐ a\n• ☑ b"),
            ("> one\n> two\n\nthree", ">one\n>two\n\nthree"),
            ("> **a\n> b**\n>\n> c", ">*a*\n>*b*\n>\n>c"),
            ("> > deep", ">deep"),
            ("[x](https://a.b/c_(d)) y", "[x](https://a.b/c_(d\\)) y"),
            ("[x](javascript:alert)", "x \\(javascript:alert\\)"),
            ("[x](src/main.rs)", "x \\(src/main\\.rs\\)"),
            ("[**x**](https://a.b) `[y](z)`", "[*x*](https://a.b) `[y](z)`"),
            ("[`x`](https://a.b)", "[x](https://a.b)"),
            ("![alt](https://a.b/c.png)", "[alt](https://a.b/c.png)"),
            ("[![alt](https://a.b/c.png)](https://d.e) f", "[alt](https://d.e) f"),
            ("```rust\nlet a = `x`;\n```\nafter", "```rust\nlet a = \\`x\\`;\n```\n\nafter"),
            ("```a b{c}\n\\n\n```", "```a\n\\\\n\n```"),
            ("    indented", "```\nindented\n```"),
            ("> ```\n> code\n> ```\n> more", "```\ncode\n```\n\n>more"),
            ("- a\n\n  ```\n  code\n  ```\n- b", "• a\n```\ncode\n```\n• b"),
            ("- ```\n  code\n  ```", "• \n```\ncode\n```"),
            ("| a | b |\n|---|---|\n| 1 | 2 |", "```\n| a | b |\n|---|---|\n| 1 | 2 |\n```"),
            ("a\n\n---\n\nb", "a\n\n———\n\nb"),
            ("<b>x</b>", "<b\\>x</b\\>"),
            ("a\\*b", "a\\*b"),
            ("line\nnext", "line\nnext"),
            ("`` ` ``", "`\\``"),
        ] {
            assert_eq!(to_markdown_v2(markdown), expected, "{markdown}");
        }
    }
}
