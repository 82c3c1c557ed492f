//! Mentions: `@name` as a whole word outside code.
//!
//! The bot's name is found in the text of people and removed from it; the text of an agent is changed so
//! that it mentions no account.

use std::ops::Range;

use crate::markdown::MarkdownLayers;

/// The name that people mention, without its `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotName(String);

impl BotName {
    /// Parses a name: `grove`, `@grove` and `grove[bot]` are the same; `None` if no account can have the
    /// name.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.trim();
        let name = name.strip_prefix('@').unwrap_or(name);
        let name = name.strip_suffix("[bot]").unwrap_or(name);
        let fits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        fits.then(|| Self(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether a text mentions the bot.
    pub fn is_in(&self, text: &str) -> bool {
        let layers = MarkdownLayers::from_text(text);
        self.mention_ranges(text).any(|place| layers.is_prose(place.start))
    }

    /// Returns the text without the mentions, as the agent gets it; `None` if it does not mention the bot.
    pub fn taken_out_of(&self, text: &str) -> Option<String> {
        let layers = MarkdownLayers::from_text(text);
        let places: Vec<Range<usize>> =
            self.mention_ranges(text).filter(|place| layers.is_prose(place.start)).collect();
        if places.is_empty() {
            return None;
        }
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for place in places {
            out.push_str(&text[at..place.start]);
            at = place.end;
            let rest = &text[at..];
            if out.trim().is_empty() {
                // A mention at the beginning is removed with its comma. A `!` behind a space begins a word.
                let behind = rest.trim_start_matches([',', ':', ';', '!']);
                at += rest.len() - behind.trim_start_matches([',', ':', ';', ' ', '\t']).len();
            } else if out.ends_with([' ', '\t']) && !rest.starts_with(|c: char| c.is_alphanumeric()) {
                // No gap is left behind.
                out.truncate(out.trim_end_matches([' ', '\t']).len());
            }
        }
        out.push_str(&text[at..]);
        Some(out.trim().to_owned())
    }

    /// Returns every place of the name as a whole word, in code or not.
    fn mention_ranges<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        text.match_indices('@').filter_map(|(at, _)| {
            let after = &text[at + 1..];
            let (name, rest) = after.split_at_checked(self.0.len())?;
            if !name.eq_ignore_ascii_case(&self.0) || continues_address(&text[..at]) {
                return None;
            }
            let bot = "[bot]";
            let suffix =
                if rest.get(..bot.len()).is_some_and(|start| start.eq_ignore_ascii_case(bot)) { bot } else { "" };
            let end = at + 1 + name.len() + suffix.len();
            (!continues_name(&text[end..])).then_some(at..end)
        })
    }
}

/// Tells whether an `@` after this text belongs to an e-mail address, a path or a handle.
fn continues_address(before: &str) -> bool {
    // `_@grove_` is a mention in italics.
    let before = before.trim_end_matches('_');
    let mut back = before.chars().rev();
    match back.next() {
        Some('/' | '@') => true,
        Some('+' | '-' | '%' | '=') => back.next().is_some_and(of_word),
        Some(c) => of_word(c),
        None => false,
    }
}

/// Tells whether a name continues: `@grove-dev`, `@grove/team`, `@grove.dev`, `@grove@host`.
fn continues_name(rest: &str) -> bool {
    let mut ahead = rest.trim_start_matches('_').chars();
    match ahead.next() {
        Some('@') => true,
        Some('-' | '/' | '.') => ahead.next().is_some_and(of_word),
        Some(c) => of_word(c),
        None => false,
    }
}

/// Tells whether a character belongs to a word. Scripts without case are written without spaces: `请@grove看看`
/// is a mention.
fn of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c.is_lowercase() || c.is_uppercase()
}

/// The invisible character after an `@` that prevents a mention.
const MENTION_BREAKER: char = '\u{200b}';

/// Changes every `@name` outside code so that it mentions no account. GitHub looks for names in the rendered
/// page, so an `@` that is written as an entity counts too.
pub fn silence_mentions(text: &str) -> String {
    let layers = MarkdownLayers::from_text(text);
    let (mut out, mut at) = (String::with_capacity(text.len() + 16), 0);
    while let Some(c) = text[at..].chars().next() {
        let sign = if c == '&' { at_entity_length(&text[at..]) } else { (c == '@').then_some(1) };
        let end = at + sign.unwrap_or(c.len_utf8());
        out.push_str(&text[at..end]);
        // An e-mail address is not a mention, and stays unchanged.
        let address = text[..at].ends_with(|before: char| before.is_ascii_alphanumeric());
        let alone = text[end..].chars().next().is_none_or(char::is_whitespace);
        if sign.is_some() && !address && !alone && !layers.is_code(at) {
            out.push(MENTION_BREAKER);
        }
        at = end;
    }
    out
}

/// Returns the length of the entity for `@` that the text begins with.
fn at_entity_length(text: &str) -> Option<usize> {
    let body = &text[1..text.bytes().take(12).position(|byte| byte == b';')?];
    let number = body.strip_prefix('#');
    let number = number.and_then(|number| match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => number.parse().ok(),
    });
    (body == "commat" || number == Some(u32::from('@'))).then_some(body.len() + "&;".len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grove_bot() -> BotName {
        BotName::parse("@grove").unwrap()
    }

    #[test]
    fn a_call_is_a_whole_word_outside_code() {
        for text in [
            "hey @grove, fix",
            "@Grove!",
            "(@grove)",
            "@grove",
            "please @GROVE.",
            "@grove's turn",
            "do it, @grove: now",
            "**@grove** fix",
            "_@grove_ fix",
            "__@grove__ fix",
            "[@grove](https://x) fix",
            "> @grove fix",
            "- [ ] @grove fix",
            "wait...@grove fix",
            "请@grove看看",
            "@grove[bot] fix",
            "@grove- fix",
            "`@grove` is you: @grove",
            "<details>\n@grove fix\n</details>",
            "| a |\n|---|\n| @grove |",
        ] {
            assert!(grove_bot().is_in(text), "{text}");
        }
        for text in [
            "",
            "grove fix",
            "me@grove.dev",
            "me@grove",
            "first.last+tag@grove",
            "x-@grove",
            "@grovekeeper2",
            "@grove2",
            "@grove_x",
            "a_@grove",
            "@grove-dev",
            "@grove/team",
            "@grove.dev",
            "@grove@mastodon.social",
            "@@grove",
            "https://example.com/@grove",
            "https://example.com/@grove/post",
            "`@grove fix`",
            "```\n@grove fix\n```",
            "~~~sh\n@grove fix\n~~~",
            "```\n@grove fix",
            "text\n\n    @grove fix\n",
            "<code>@grove</code>",
            "<pre>\n@grove\n</pre>",
            "<!-- @grove fix -->",
            "@\u{200b}grove",
            "@groveé",
            "é@grove",
        ] {
            assert!(!grove_bot().is_in(text), "{text}");
        }
    }

    #[test]
    fn the_call_is_taken_out() {
        for (text, left) in [
            ("@grove fix this", "fix this"),
            ("@grove, fix this", "fix this"),
            ("@grove: /status", "/status"),
            ("@grove! fix this", "fix this"),
            ("@grove !status", "!status"),
            ("  @grove /worktree list", "/worktree list"),
            ("hey @grove, fix", "hey, fix"),
            ("hey @grove fix", "hey fix"),
            ("fix this @grove", "fix this"),
            ("fix this @grove.", "fix this."),
            ("@grove @Grove fix", "fix"),
            ("@grove[bot] fix", "fix"),
            ("line\n@grove fix\nline", "line\n fix\nline"),
            ("@grove say `@grove`", "say `@grove`"),
            ("@grove", ""),
            ("@grove ask @alice", "ask @alice"),
        ] {
            assert_eq!(grove_bot().taken_out_of(text).as_deref(), Some(left), "{text}");
        }
        assert_eq!(grove_bot().taken_out_of("fix me@grove.dev"), None);
    }

    #[test]
    fn an_agents_text_mentions_no_user() {
        for (text, left) in [
            ("@everyone look", "@\u{200b}everyone look"),
            ("ask @octo/team and @bob", "ask @\u{200b}octo/team and @\u{200b}bob"),
            ("(@bob) /@bob", "(@\u{200b}bob) /@\u{200b}bob"),
            ("mail me@example.com", "mail me@example.com"),
            ("`@bob` @bob", "`@bob` @\u{200b}bob"),
            ("```java\n@Override\n```", "```java\n@Override\n```"),
            ("<code>@bob</code>", "<code>@\u{200b}bob</code>"),
            ("a @ b", "a @ b"),
            ("_@bob_ **x**@bob", "_@\u{200b}bob_ **x**@\u{200b}bob"),
            (
                "&#64;bob &commat;bob &#x0040;bob &amp;bob",
                "&#64;\u{200b}bob &commat;\u{200b}bob &#x0040;\u{200b}bob &amp;bob",
            ),
            ("@&#98;ob", "@\u{200b}&#98;ob"),
        ] {
            assert_eq!(silence_mentions(text), left, "{text}");
        }
    }

    #[test]
    fn a_name_is_one_that_an_account_can_have() {
        for name in ["grove", "@grove", " grove ", "grove[bot]"] {
            assert_eq!(BotName::parse(name), Some(grove_bot()), "{name}");
        }
        for name in ["", "@", "a b", "a/b", "@@grove", "grové"] {
            assert_eq!(BotName::parse(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn nothing_silenced_calls_the_bot(text in "([@` \n(.>~a-]|grove|```|<!--|-->|    ){0,40}") {
            let silent = silence_mentions(&text);
            prop_assert!(!grove_bot().is_in(&silent), "{silent:?}");
            prop_assert_eq!(silent.replace(MENTION_BREAKER, ""), text);
        }

        #[test]
        fn nothing_is_left_of_a_call(text in "([@` \n(.,>~a-]|grove|```|    ){0,40}") {
            if let Some(left) = grove_bot().taken_out_of(&text) {
                prop_assert!(left.len() < text.len());
            }
        }
    }
}
