//! The name of a thread, from the message that begins it.

use crate::clean::one_line;

/// The maximum length of a name.
const MAX_NAME_LENGTH: usize = 100;
/// The name for a message without usable words.
const DEFAULT_NAME: &str = "New work";
/// More of a message is not read.
const MAX_READ_LENGTH: usize = 1_000;

/// Returns the first words of a text as the name of a thread: one line without markup.
pub fn thread_name(text: &str) -> String {
    let start: String = text.chars().take(MAX_READ_LENGTH).collect();
    let plain = remove_tags(&start).replace(['`', '*', '~', '|', '#', '>'], " ");
    let line = one_line(&plain, MAX_READ_LENGTH);
    let line = line.trim();
    if line.is_empty() {
        return DEFAULT_NAME.to_owned();
    }
    let Some((end, _)) = line.char_indices().nth(MAX_NAME_LENGTH) else { return line.to_owned() };
    // One character is for the mark.
    let cut = line[..end].char_indices().next_back().map_or(0, |(at, _)| at);
    let words = line[..cut].rfind(' ').filter(|at| *at > cut / 2).unwrap_or(cut);
    format!("{}…", line[..words].trim_end())
}

/// Removes mentions, channels, custom emoji and timestamps: `<@1>`, `<#1>`, `<:name:1>`, `<t:1>`.
fn remove_tags(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        let inside = &rest[at + 1..];
        let end = inside.find(['>', '<', ' ', '\n']).filter(|end| inside[*end..].starts_with('>'));
        let is_tag = inside.starts_with(['@', '#', ':', '/']) || inside.starts_with("a:") || inside.starts_with("t:");
        rest = match end {
            Some(end) if is_tag => &inside[end + 1..],
            _ => {
                out.push('<');
                inside
            }
        };
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_thread_is_named_after_its_first_words() {
        for (text, name) in [
            ("fix the login", "fix the login"),
            ("fix the login\nIt fails since Monday.", "fix the login It fails since Monday."),
            ("ask <@123> about <#5> <:grove:9> `code` **now**", "ask about code now"),
            ("# Title\n> quoted", "Title quoted"),
            ("a < b and c <d> e", "a < b and c <d e"),
            ("\u{200b}\n\t", "New work"),
            ("```\n```", "New work"),
        ] {
            assert_eq!(thread_name(text), name, "{text:?}");
        }
        let long = thread_name(&"word ".repeat(60));
        assert!(long.ends_with("word…") && long.chars().count() <= 100, "{long}");
        assert_eq!(thread_name(&"x".repeat(200)).chars().count(), 100);
    }

    proptest! {
        #[test]
        fn every_name_is_accepted(text in "(.|\n|<@1>|<|>|\u{200b}|ü){0,300}") {
            let name = thread_name(&text);
            prop_assert!((1..=100).contains(&name.chars().count()), "{name:?}");
            prop_assert!(!name.contains('\n') && name.trim() == name, "{name:?}");
        }
    }
}
