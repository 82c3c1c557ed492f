//! Titles: a conversation and its worktree in a few words, for people.

use grove_model::WorkHints;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::command_line::split_command;

/// The longest title.
const MAX_TITLE_CHARS: usize = 60;

/// Returns the title that a message gives: that of its issue or pull request, else its first sentence. A
/// command gives none.
pub fn message_title(text: &str, hints: &WorkHints) -> Option<String> {
    if let Some(title) = &hints.title {
        return shorten_title(title);
    }
    if split_command(text).is_some() {
        return None;
    }
    shorten_title(first_sentence(&first_line(without_mention(text))))
}

/// Removes the mention at the beginning, which is not part of the message: `@grove, `.
fn without_mention(text: &str) -> &str {
    let text = text.trim_start();
    let Some(rest) = text.strip_prefix('@') else { return text };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "-_[]".contains(c));
    let ends = rest.is_empty() || rest.starts_with(|c: char| c.is_whitespace() || ",:;!".contains(c));
    if ends { rest.trim_start_matches([',', ':', ';', '!', ' ', '\t']) } else { text }
}

/// Returns the first line of the text without the marks of Markdown.
fn first_line(text: &str) -> String {
    let mut line = String::new();
    for event in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS) {
        let ends_line = matches!(
            event,
            Event::SoftBreak
                | Event::HardBreak
                | Event::Start(Tag::List(_) | Tag::Paragraph | Tag::CodeBlock(_))
                | Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::CodeBlock)
        );
        if ends_line && !line.trim().is_empty() {
            break;
        }
        if let Event::Text(part) | Event::Code(part) | Event::Html(part) | Event::InlineHtml(part) = event {
            line.push_str(&part);
        }
    }
    line.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// Returns the text up to the end of its first sentence. A full stop counts only before a new sentence: `e.g. x`
/// and `v1.2` go on.
fn first_sentence(line: &str) -> &str {
    for (at, c) in line.char_indices() {
        let rest = &line[at + c.len_utf8()..];
        let next = rest.trim_start().chars().next();
        let ends = rest.starts_with(char::is_whitespace) && !next.is_some_and(char::is_lowercase);
        match c {
            '.' if ends => return &line[..at],
            '!' | '?' if ends => return &line[..line.len() - rest.len()],
            '。' | '！' | '？' => return &line[..line.len() - rest.len()],
            _ => {}
        }
    }
    line
}

/// Returns the text on one line, cut at a word where it is too long; `None` if nothing is left.
fn shorten_title(text: &str) -> Option<String> {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let trimmed = |text: &str| text.trim_end_matches([' ', '.', ',', ':', ';']).to_owned();
    let title = match line.char_indices().nth(MAX_TITLE_CHARS) {
        None => trimmed(&line),
        Some(_) => {
            // One character is for the dots.
            let (end, _) = line.char_indices().nth(MAX_TITLE_CHARS - 1)?;
            let (head, rest) = line.split_at(end);
            let at_word = if rest.starts_with(' ') { end } else { head.rfind(' ').unwrap_or(end) };
            format!("{}…", trimmed(&head[..at_word]))
        }
    };
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title_of(text: &str) -> Option<String> {
        message_title(text, &WorkHints::default())
    }

    #[test]
    fn a_title_is_the_first_sentence_without_marks() {
        for (text, title) in [
            ("Fix the login redirect", "Fix the login redirect"),
            ("Fix the login redirect. It goes to /home.", "Fix the login redirect"),
            ("@grove, fix the **login** redirect", "fix the login redirect"),
            ("@grove\nFix it", "Fix it"),
            ("@types/node is broken", "@types/node is broken"),
            ("# Login fails\n\nIt does.", "Login fails"),
            ("- [ ] first\n- second", "first"),
            ("> quoted\n> more", "quoted"),
            ("see [the docs](https://example.org/a) and `main.rs`\nmore", "see the docs and main.rs"),
            ("```sh\nmake test\n```\nfails", "make test"),
            ("Why does v1.2 fail, e.g. on macOS? It did not.", "Why does v1.2 fail, e.g. on macOS?"),
            ("Done!  Now the next", "Done!"),
            ("three:\n\n1. one\n2. two", "three"),
            ("echo '<b>'; ls *.rs", "echo '<b>'; ls *.rs"),
            ("直してください。お願いします", "直してください。"),
            ("tab\tand\u{7}bell", "tab and bell"),
        ] {
            assert_eq!(title_of(text).as_deref(), Some(title), "{text:?}");
        }
        for nothing in ["", " \n", "@grove", "/worktree list", "/run review 42", "***"] {
            assert_eq!(title_of(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn a_long_title_is_cut_at_a_word() {
        let words = "word ".repeat(20);
        let title = title_of(&words).unwrap();
        assert_eq!(title, format!("{}…", "word ".repeat(12).trim_end()));
        assert_eq!(title_of(&format!("a{words}")).unwrap(), format!("a{}…", "word ".repeat(11).trim_end()));
        assert_eq!(title_of(&"x".repeat(60)).unwrap(), "x".repeat(60));
        assert_eq!(title_of(&"é".repeat(61)).unwrap(), format!("{}…", "é".repeat(59)));
        let exact = format!("{} rest", "y".repeat(59));
        assert_eq!(title_of(&exact).unwrap(), format!("{}…", "y".repeat(59)));
    }

    #[test]
    fn an_issue_has_its_own_title() {
        let hints = WorkHints { title: Some("Login\nfails. Always".to_owned()), ..WorkHints::default() };
        for text in ["fix it", "/status"] {
            assert_eq!(message_title(text, &hints).as_deref(), Some("Login fails. Always"), "{text}");
        }
    }
}
