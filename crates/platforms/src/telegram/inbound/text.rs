//! The text of a message as Markdown: Telegram sends the text without marks, and its parts beside it.

use std::ops::Range;

use crate::telegram::inbound::classify::BotIdentity;
use crate::telegram::inbound::wire::MessageEntity;

/// Returns the text with its code, links and mentions of the bot as Markdown, which the agent gets and in
/// which the bot's name is looked for. Parts that do not fit the text are left as they are.
pub(super) fn markdown_text(text: &str, entities: &[MessageEntity], us: &BotIdentity) -> String {
    let mut marked: Vec<(Range<usize>, &MessageEntity)> =
        entities.iter().filter_map(|entity| Some((byte_range(text, entity)?, entity))).collect();
    marked.sort_by_key(|(range, _)| range.start);
    let (mut out, mut at) = (String::with_capacity(text.len() + 16), 0);
    for (range, entity) in marked {
        if range.start < at {
            continue;
        }
        let inside = &text[range.clone()];
        let replaced = match entity.kind.as_str() {
            "code" if !inside.contains('\n') => Some(mark_code(inside)),
            "pre" | "code" => Some(mark_code_block(inside, entity.language.as_deref().unwrap_or_default())),
            "text_link" => entity.url.as_ref().filter(|url| *url != inside).map(|url| format!("[{inside}]({url})")),
            "text_mention" if entity.user.as_ref().is_some_and(|user| user.id == us.id) => {
                Some(format!("@{}", us.name.as_str()))
            }
            _ => None,
        };
        let Some(replaced) = replaced else { continue };
        out.push_str(&text[at..range.start]);
        let is_block = replaced.starts_with("```");
        if is_block && !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&replaced);
        at = range.end;
        if is_block && !text[at..].is_empty() && !text[at..].starts_with('\n') {
            out.push('\n');
        }
    }
    out.push_str(&text[at..]);
    out
}

/// Returns the bytes of a part; `None` if it is empty, outside of the text or inside a character.
fn byte_range(text: &str, entity: &MessageEntity) -> Option<Range<usize>> {
    let end = entity.offset.checked_add(entity.length)?;
    let (mut units, mut start) = (0, None);
    for (at, c) in text.char_indices().chain([(text.len(), '\0')]) {
        if units == entity.offset {
            start = Some(at);
        }
        if units == end {
            return start.filter(|start| *start < at).map(|start| start..at);
        }
        units += c.len_utf16();
    }
    None
}

fn mark_code(inside: &str) -> String {
    let run = "`".repeat(longest_backticks(inside) + 1);
    let space = if inside.starts_with('`') || inside.ends_with('`') { " " } else { "" };
    format!("{run}{space}{inside}{space}{run}")
}

fn mark_code_block(inside: &str, language: &str) -> String {
    let run = "`".repeat(longest_backticks(inside).max(2) + 1);
    let language: String = language.chars().filter(|c| !c.is_whitespace() && *c != '`').collect();
    let line = if inside.ends_with('\n') { "" } else { "\n" };
    format!("{run}{language}\n{inside}{line}{run}")
}

fn longest_backticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::mention::BotName;

    fn grove_bot() -> BotIdentity {
        BotIdentity { id: 7, name: BotName::parse("grove_bot").unwrap() }
    }

    fn entity(kind: &str, offset: usize, length: usize) -> MessageEntity {
        let json = json!({ "type": kind, "offset": offset, "length": length, "url": "https://x.dev",
            "user": { "id": 7 }, "language": "sh" });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn marks_come_back_as_markdown() {
        let bot = grove_bot();
        for (text, entities, expected) in [
            ("😀 run ls now", vec![entity("code", 7, 2)], "😀 run `ls` now"),
            ("a ` b", vec![entity("code", 0, 5)], "``a ` b``"),
            ("see ls -l", vec![entity("pre", 4, 5)], "see \n```sh\nls -l\n```"),
            ("see it", vec![entity("text_link", 4, 2)], "see [it](https://x.dev)"),
            ("Grove do it", vec![entity("text_mention", 0, 5)], "@grove_bot do it"),
            ("bold", vec![entity("bold", 0, 4), entity("new_kind", 1, 2)], "bold"),
            ("x", vec![entity("code", 0, 9), entity("code", usize::MAX, 9)], "x"),
            ("😀", vec![entity("code", 1, 1)], "😀"),
            ("abc", vec![entity("code", 0, 2), entity("code", 1, 2)], "`ab`c"),
        ] {
            assert_eq!(markdown_text(text, &entities, &bot), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_part_panics(text in "(.|\n|`|😀){0,20}", parts in prop::collection::vec((0usize..5, 0usize..25, 0usize..25), 0..5)) {
            let kinds = ["code", "pre", "text_link", "text_mention", "mention"];
            let entities: Vec<_> = parts.into_iter().map(|(kind, at, length)| entity(kinds[kind], at, length)).collect();
            let marked = markdown_text(&text, &entities, &grove_bot());
            prop_assert!(entities.iter().any(|it| it.kind == "text_mention") || marked.len() >= text.len());
        }
    }
}
