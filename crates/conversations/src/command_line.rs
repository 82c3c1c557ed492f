//! Splits a message into the words of a command.

/// The maximum size of a first word, which is the name of a custom command.
const MAX_FIRST_WORD_BYTES: usize = 4096;

/// Stands for `#` while a text is split: a shell takes a word that begins with `#` for a comment, but here
/// it may be a name. Unicode reserves this code point for use inside of a program.
const HASH_STAND_IN: char = '\u{fdd0}';

/// Splits a message that begins with a command into the command's name and everything behind it. A command
/// is `/` and a word; `/usr/bin` is a path.
pub fn split_command(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start().strip_prefix('/')?;
    let (name, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
    plain.then_some((name, rest))
}

/// Tells whether a message is handled without waiting for its turn.
pub fn can_skip_queue(text: &str) -> bool {
    split_command(text).is_some_and(|(name, _)| name == "stop")
}

/// Splits a text into words as a shell does: white space separates them, quotes keep them together, a
/// backslash takes the next character as it is. `None` if a quote is not closed.
pub fn split_words(text: &str) -> Option<Vec<String>> {
    let separate = |c: char| match c {
        '#' => HASH_STAND_IN,
        '\n' => '\n',
        c if c.is_whitespace() => ' ',
        c => c,
    };
    let words = shlex::split(&text.replace("\r\n", "\n").chars().map(separate).collect::<String>())?;
    Some(words.into_iter().map(|word| word.replace(HASH_STAND_IN, "#")).collect())
}

/// Splits a text into its first word and everything behind it, which may contain anything. `None` if there
/// is no word, or if its quote is not closed.
pub fn split_first_word(text: &str) -> Option<(String, &str)> {
    let spaces = text.char_indices().filter(|(_, c)| c.is_whitespace()).map(|(at, _)| at);
    let mut ends = spaces.take_while(|at| *at <= MAX_FIRST_WORD_BYTES).chain([text.len()]);
    ends.find_map(|end| Some((split_words(&text[..end])?.pop()?, &text[end..])))
}

/// The arguments of a custom command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandArguments {
    /// The arguments as they were typed.
    pub text: String,
    /// The arguments as words; `None` if a quote is not closed.
    pub words: Option<Vec<String>>,
}

impl CommandArguments {
    pub fn parse_arguments(text: &str) -> Self {
        Self { text: text.trim().to_owned(), words: split_words(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_from_words() {
        assert_eq!(split_command("/help"), Some(("help", "")));
        assert_eq!(split_command("  /worktree list\nx"), Some(("worktree", " list\nx")));
        for words in ["hello", "/usr/bin is full", "/", "/ help", "// comment", "see /help", "/1", "/über"] {
            assert_eq!(split_command(words), None, "{words}");
        }
        assert!(can_skip_queue(" /stop now, it doesn't work") && !can_skip_queue("/stopp") && !can_skip_queue("stop"));
    }

    #[test]
    fn words_are_split_as_in_a_shell() {
        let words: [(&str, Option<&[&str]>); 12] = [
            (" a  b\tc\r\nd\u{a0}e ", Some(&["a", "b", "c", "d", "e"])),
            ("'a b' \"c 'd'\" e\" f\"", Some(&["a b", "c 'd'", "e f"])),
            ("'a\r\nb'", Some(&["a\nb"])),
            ("größe 日本", Some(&["größe", "日本"])),
            ("#42 --force '#1' a#b", Some(&["#42", "--force", "#1", "a#b"])),
            ("a\\ b it\\'s", Some(&["a b", "it's"])),
            ("'' \"\"", Some(&["", ""])),
            (" \n ", Some(&[])),
            ("$HOME `x` *", Some(&["$HOME", "`x`", "*"])),
            ("it's", None),
            ("\"x", None),
            ("x\\", None),
        ];
        for (text, split) in words {
            let found = split_words(text);
            let found: Option<Vec<&str>> = found.as_ref().map(|words| words.iter().map(String::as_str).collect());
            assert_eq!(found.as_deref(), split, "{text:?}");
        }
    }

    #[test]
    fn everything_behind_the_first_word_is_kept_as_it_was_typed() {
        let cases = [
            ("review", Some(("review", ""))),
            (" 'my review'\n a  'b c' ", Some(("my review", "\n a  'b c' "))),
            (" fix it doesn't work", Some(("fix", " it doesn't work"))),
            ("my\\ review x", Some(("my review", " x"))),
            ("#42 x", Some(("#42", " x"))),
            (" \n", None),
            ("'x y", None),
        ];
        for (text, split) in cases {
            let found = split_first_word(text);
            assert_eq!(found.as_ref().map(|(word, rest)| (word.as_str(), *rest)), split, "{text:?}");
        }
        let long = format!("'{}", "x ".repeat(500_000));
        assert_eq!(split_first_word(&long), None);
    }
}
