//! Parses MarkdownV2 by the rules of the real server: what it refuses, this refuses.

/// A text without its marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedMarkdown {
    pub text: String,
    /// The formatted parts: their kind, with a link's address or a block's language, and text.
    pub entities: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntityKind {
    Bold,
    Italic,
    Underline,
    Strikethrough,
    Spoiler,
    Link,
    Code,
    CodeBlock,
    Quote,
}

struct OpenEntity {
    kind: EntityKind,
    argument: String,
    start: usize,
    at: usize,
}

/// Parses a text; the error is the reason of the refusal.
pub fn parse_markdown_v2(text: &str) -> Result<ParsedMarkdown, String> {
    let chars: Vec<char> = text.chars().collect();
    let get = |at: usize| chars.get(at).copied().unwrap_or('\0');
    let (mut out, mut open, mut entities) = (String::new(), Vec::<OpenEntity>::new(), Vec::new());
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        if c == '\\' && (1..=126).contains(&u32::from(get(at + 1))) {
            out.push(chars[at + 1]);
            at += 2;
            continue;
        }
        let inner = open.last().map(|entity| entity.kind);
        let in_code = matches!(inner, Some(EntityKind::Code | EntityKind::CodeBlock));
        let reserved = if in_code { "`" } else { "_*[]()~`>#+-=|{}.!\n" };
        if !reserved.contains(c) {
            out.push(c);
            at += 1;
            continue;
        }
        if inner.is_some_and(|kind| ends_entity(kind, c, get(at + 1), get(at + 2))) {
            let entity = open.pop().expect("an open one");
            let inside = out[entity.start..].to_owned();
            let mut argument = entity.argument;
            at += match entity.kind {
                EntityKind::Underline | EntityKind::Spoiler => 2,
                EntityKind::CodeBlock => 3,
                EntityKind::Quote => {
                    out.push('\n');
                    1
                }
                EntityKind::Link if get(at + 1) == '(' => {
                    let (url, end) = parse_url(&chars, at + 2)?;
                    argument = url;
                    end - at
                }
                _ => 1,
            };
            if !inside.is_empty() {
                entities.push((format!("{:?} {argument}", entity.kind).trim_end().to_owned(), inside));
            }
            continue;
        }
        let starts_line = out.is_empty() || out.ends_with('\n');
        let (kind, argument, length) = match (c, get(at + 1)) {
            ('\n', _) => {
                out.push('\n');
                at += 1;
                // The next line of a quote begins with its sign.
                if open.iter().any(|entity| entity.kind == EntityKind::Quote) {
                    at += 1;
                }
                continue;
            }
            ('_', '_') => (EntityKind::Underline, String::new(), 2),
            ('_', _) => (EntityKind::Italic, String::new(), 1),
            ('*', _) => (EntityKind::Bold, String::new(), 1),
            ('~', _) => (EntityKind::Strikethrough, String::new(), 1),
            ('|', '|') => (EntityKind::Spoiler, String::new(), 2),
            ('[', _) => (EntityKind::Link, String::new(), 1),
            ('>', _) if starts_line && open.is_empty() => (EntityKind::Quote, String::new(), 1),
            ('`', '`') if get(at + 2) == '`' => {
                let (language, length) = parse_language(&chars, at + 3);
                (EntityKind::CodeBlock, language, 3 + length)
            }
            ('`', _) => (EntityKind::Code, String::new(), 1),
            _ => return Err(format!("Character '{c}' is reserved and must be escaped with the preceding '\\'")),
        };
        if open.iter().any(|entity| entity.kind == kind) {
            return Err(format!("{kind:?} inside of {kind:?} at character {at}"));
        }
        open.push(OpenEntity { kind, argument, start: out.len(), at });
        at += length;
    }
    // A quote ends with the text.
    if open.last().is_some_and(|entity| entity.kind == EntityKind::Quote) {
        let quote = open.pop().expect("a quote");
        entities.push(("Quote".to_owned(), out[quote.start..].to_owned()));
    }
    match open.last() {
        Some(entity) => Err(format!("Can't find end of {:?} entity at character {}", entity.kind, entity.at)),
        None => Ok(ParsedMarkdown { text: out, entities }),
    }
}

fn ends_entity(kind: EntityKind, c: char, next: char, after: char) -> bool {
    match kind {
        EntityKind::Bold => c == '*',
        EntityKind::Italic => c == '_' && next != '_',
        EntityKind::Underline => c == '_' && next == '_',
        EntityKind::Strikethrough => c == '~',
        EntityKind::Spoiler => c == '|' && next == '|',
        EntityKind::Link => c == ']',
        EntityKind::Code => c == '`',
        EntityKind::CodeBlock => c == '`' && next == '`' && after == '`',
        EntityKind::Quote => c == '\n' && next != '>',
    }
}

/// Returns the address of a link, and the position behind it.
fn parse_url(chars: &[char], mut at: usize) -> Result<(String, usize), String> {
    let (begin, mut url) = (at, String::new());
    loop {
        match chars.get(at) {
            Some(')') => return Ok((url, at + 1)),
            Some('\\') if chars.get(at + 1).is_some_and(|next| (1..=126).contains(&u32::from(*next))) => {
                url.push(chars[at + 1]);
                at += 2;
            }
            Some(c) => {
                url.push(*c);
                at += 1;
            }
            None => return Err(format!("Can't find end of a URL at character {begin}")),
        }
    }
}

/// Returns the language of a code block, and its length with the end of the line.
fn parse_language(chars: &[char], begin: usize) -> (String, usize) {
    let word: String = chars[begin..].iter().take_while(|c| !c.is_whitespace() && **c != '`').collect();
    let length = word.chars().count();
    let behind = chars.get(begin + length).copied();
    match behind {
        Some(c) if c != '`' && length > 0 => (word, length + usize::from(c == '\n')),
        Some('\n') => (String::new(), 1),
        _ => (String::new(), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_the_server_hold() {
        for (text, plain) in [
            ("*bold _it_* ~x~ `c\\`d`", "bold it x c`d"),
            ("[a*b*](https://x.y/\\)z)", "ab"),
            ("```rust\nlet a = [1];\n```", "let a = [1];\n"),
            (">a\n>b\nc", "a\nb\nc"),
            ("a\\.b\\!", "a.b!"),
        ] {
            assert_eq!(parse_markdown_v2(text).unwrap().text, plain, "{text}");
        }
        for text in ["a.b", "a-b", "*a", "_a__b_", "[a](b", "a > b", "`a", "```a", "(x)", "*a\n>b*"] {
            assert!(parse_markdown_v2(text).is_err(), "{text}");
        }
    }
}
