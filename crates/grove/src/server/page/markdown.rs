//! Markdown as HTML. An agent writes the text, so nothing in it may act: only the tags below are written, every
//! text and address is escaped, raw HTML is shown as text, and links lead only to the web or to a mail program.
//! No picture is loaded.
//!
//! The tags are written as they come, without recursion: text that is nested deeply must not exhaust the stack.

use std::fmt::Write;

use maud::{Escaper, Markup, PreEscaped};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// The beginnings of addresses that a link may lead to.
const LINK_SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// Renders a text.
pub fn render_markdown(text: &str) -> Markup {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = HtmlWriter::default();
    Parser::new_ext(text, options).for_each(|event| writer.write_event(event));
    PreEscaped(writer.html)
}

#[derive(Default)]
struct HtmlWriter {
    html: String,
    /// The text of the code block that is open.
    code: Option<String>,
    /// The open links.
    links: Vec<OpenLink>,
    in_table_head: bool,
}

struct OpenLink {
    address: String,
    /// The address is allowed.
    leads: bool,
    /// The place where its text begins.
    begin: usize,
}

impl HtmlWriter {
    fn write_event(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) if self.code.is_some() => self.code.get_or_insert_default().push_str(&text),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.write_text(&text),
            Event::Code(code) => {
                self.html.push_str("<code>");
                self.write_text(&code);
                self.html.push_str("</code>");
            }
            Event::Start(tag) => self.open_tag(tag),
            Event::End(tag) => self.close_tag(tag),
            // The page shows line breaks in paragraphs.
            Event::SoftBreak | Event::HardBreak => self.html.push('\n'),
            Event::Rule => self.html.push_str("<hr>"),
            Event::TaskListMarker(done) => self.html.push_str(if done { "☑ " } else { "☐ " }),
            // Not asked for.
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.write_text(&text)
            }
        }
    }

    fn write_text(&mut self, text: &str) {
        // Writing to a string does not fail.
        let _ = Escaper::new(&mut self.html).write_str(text);
    }

    fn open_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.html.push_str("<p>"),
            Tag::Heading { level, .. } => self.write_heading_tag("<", level),
            Tag::BlockQuote(_) => self.html.push_str("<blockquote>"),
            Tag::CodeBlock(_) => self.code = Some(String::new()),
            Tag::List(None) => self.html.push_str("<ul>"),
            Tag::List(Some(1)) => self.html.push_str("<ol>"),
            Tag::List(Some(start)) => self.html.push_str(&format!("<ol start=\"{start}\">")),
            Tag::Item => self.html.push_str("<li>"),
            Tag::Emphasis => self.html.push_str("<em>"),
            Tag::Strong => self.html.push_str("<strong>"),
            Tag::Strikethrough => self.html.push_str("<del>"),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.open_link(&dest_url),
            Tag::Table(_) => self.html.push_str("<div class=\"table\"><table>"),
            Tag::TableHead => {
                self.in_table_head = true;
                self.html.push_str("<thead><tr>");
            }
            Tag::TableRow => self.html.push_str("<tr>"),
            Tag::TableCell => self.html.push_str(if self.in_table_head { "<th>" } else { "<td>" }),
            // Not asked for.
            Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn close_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.html.push_str("</p>"),
            TagEnd::Heading(level) => self.write_heading_tag("</", level),
            TagEnd::BlockQuote(_) => self.html.push_str("</blockquote>"),
            TagEnd::CodeBlock => {
                let code = self.code.take().unwrap_or_default();
                self.html.push_str("<pre tabindex=\"0\"><code>");
                self.write_text(code.trim_end_matches('\n'));
                self.html.push_str("</code></pre>");
            }
            TagEnd::List(false) => self.html.push_str("</ul>"),
            TagEnd::List(true) => self.html.push_str("</ol>"),
            TagEnd::Item => self.html.push_str("</li>"),
            TagEnd::Emphasis => self.html.push_str("</em>"),
            TagEnd::Strong => self.html.push_str("</strong>"),
            TagEnd::Strikethrough => self.html.push_str("</del>"),
            TagEnd::Link | TagEnd::Image => self.close_link(),
            TagEnd::Table => self.html.push_str("</table></div>"),
            TagEnd::TableHead => {
                self.in_table_head = false;
                self.html.push_str("</tr></thead>");
            }
            TagEnd::TableRow => self.html.push_str("</tr>"),
            TagEnd::TableCell => self.html.push_str(if self.in_table_head { "</th>" } else { "</td>" }),
            TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    /// The page itself has the headings of the first and second level.
    fn write_heading_tag(&mut self, begin: &str, level: HeadingLevel) {
        let level = (level as usize + 2).min(6);
        self.html.push_str(&format!("{begin}h{level}>"));
    }

    fn open_link(&mut self, address: &str) {
        let leads = self.links.is_empty() && is_allowed_address(address);
        if leads {
            self.html.push_str("<a href=\"");
            self.write_text(address);
            self.html.push_str("\" rel=\"noopener\" target=\"_blank\">");
        }
        self.links.push(OpenLink { address: address.to_owned(), leads, begin: self.html.len() });
    }

    /// Closes a link. One without a text, such as a picture without a description, shows its address.
    fn close_link(&mut self) {
        let Some(OpenLink { address, leads, begin }) = self.links.pop() else { return };
        if self.html.len() == begin {
            self.write_text(&address);
        }
        if leads {
            self.html.push_str("</a>");
        }
    }
}

fn is_allowed_address(address: &str) -> bool {
    let is_start = |scheme: &&str| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    LINK_SCHEMES.iter().any(is_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html_of(text: &str) -> String {
        render_markdown(text).into_string()
    }

    #[test]
    fn each_mark_has_its_tag() {
        for (text, html) in [
            ("one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"),
            ("# Title\n###### Deep", "<h3>Title</h3><h6>Deep</h6>"),
            (
                "**bold** *em* ~~gone~~ `a<b`",
                "<p><strong>bold</strong> <em>em</em> <del>gone</del> <code>a&lt;b</code></p>",
            ),
            ("- a\n- b\n  1. c", "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>"),
            ("3. c\n4. d", "<ol start=\"3\"><li>c</li><li>d</li></ol>"),
            ("- [x] a\n- [ ] b", "<ul><li>☑ a</li><li>☐ b</li></ul>"),
            ("> q\n\n---", "<blockquote><p>q</p></blockquote><hr>"),
            ("```rust\nlet a = 1 < 2;\n\n```", "<pre tabindex=\"0\"><code>let a = 1 &lt; 2;</code></pre>"),
            ("```\nnot closed", "<pre tabindex=\"0\"><code>not closed</code></pre>"),
            (
                "|a|b|\n|-|-|\n|1|2|",
                "<div class=\"table\"><table><thead><tr><th>a</th><th>b</th></tr></thead>\
                 <tr><td>1</td><td>2</td></tr></table></div>",
            ),
            (
                "[a](https://x.org/?a=1&b=2) <mailto:me@x.org>",
                "<p><a href=\"https://x.org/?a=1&amp;b=2\" rel=\"noopener\" target=\"_blank\">a</a> \
                 <a href=\"mailto:me@x.org\" rel=\"noopener\" target=\"_blank\">mailto:me@x.org</a></p>",
            ),
            (
                "![](http://x.org/p.png)",
                "<p><a href=\"http://x.org/p.png\" rel=\"noopener\" target=\"_blank\">http://x.org/p.png</a></p>",
            ),
        ] {
            assert_eq!(html_of(text), html, "{text}");
        }
    }

    #[test]
    fn nothing_that_an_agent_writes_acts() {
        for (text, html) in [
            ("<img src=x onerror=alert(1)>", "<p>&lt;img src=x onerror=alert(1)&gt;</p>"),
            ("a <b onclick=\"x\">b</b>", "<p>a &lt;b onclick=&quot;x&quot;&gt;b&lt;/b&gt;</p>"),
            ("<script>\nalert(1)\n</script>", "<p>&lt;script&gt;\nalert(1)\n&lt;/script&gt;</p>"),
            ("[click](javascript:alert(1))", "<p>click</p>"),
            ("[click](JaVaScRiPt:alert(1))", "<p>click</p>"),
            ("[click](&#106;avascript:alert(1))", "<p>click</p>"),
            ("[click](data:text/html,x) [in](../x) [at](//evil.example)", "<p>click in at</p>"),
            ("![alt](javascript:alert(1)) ![](data:x)", "<p>alt data:x</p>"),
            ("&lt;script&gt;", "<p>&lt;script&gt;</p>"),
            ("```\"><script>\nx\n```", "<pre tabindex=\"0\"><code>x</code></pre>"),
        ] {
            assert_eq!(html_of(text), html, "{text}");
        }
        let quoted = html_of("[a](http://x.org/\"onmouseover=\"alert(1) \"title\")");
        assert!(!quoted.contains("\"onmouseover"), "{quoted}");
        let quoted = html_of("<http://x.org/'\"onmouseover=alert(1)>");
        assert!(!quoted.contains("\"onmouseover"), "{quoted}");
    }

    #[test]
    fn text_that_is_nested_deeply_is_shown() {
        let deep = html_of(&format!("{}x", "> ".repeat(20_000)));
        assert!(deep.contains('x'));
        assert!(html_of(&format!("{}x{}", "[".repeat(20_000), "](http://x.org)".repeat(20_000))).contains('x'));
    }
}
