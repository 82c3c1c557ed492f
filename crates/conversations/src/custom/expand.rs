//! Inserts the arguments of a command into its text.

use crate::command_line::CommandArguments;

/// The maximum size of a prompt.
const MAX_PROMPT_BYTES: usize = 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub enum ExpandError {
    TooLong,
    /// The command needs single words, but an open quote makes their end unclear.
    OpenQuote,
}

/// Replaces `$ARGUMENTS` by everything after the name, and `$1` to `$9` by one word of it, or nothing.
/// Inserted text is not expanded again. If the text has no placeholders, the arguments are appended to it.
pub fn expand_arguments(text: &str, arguments: &CommandArguments) -> Result<String, ExpandError> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    let mut taken = false;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let (wanted, length) = parse_placeholder(&rest[at..]);
        match wanted {
            Some(Placeholder::All) => expanded.push_str(&arguments.text),
            Some(Placeholder::Word(number)) => {
                let words = arguments.words.as_ref().ok_or(ExpandError::OpenQuote)?;
                expanded.push_str(words.get(number - 1).map_or("", String::as_str));
            }
            None => expanded.push_str(&rest[at..at + length]),
        }
        taken |= wanted.is_some();
        if expanded.len() > MAX_PROMPT_BYTES {
            return Err(ExpandError::TooLong);
        }
        rest = &rest[at + length..];
    }
    expanded.push_str(rest);
    if !taken && !arguments.text.is_empty() {
        expanded = format!("{}\n\nArguments:\n{}", expanded.trim_end(), arguments.text);
    }
    if expanded.len() > MAX_PROMPT_BYTES { Err(ExpandError::TooLong) } else { Ok(expanded) }
}

#[derive(Clone, Copy)]
enum Placeholder {
    All,
    Word(usize),
}

/// Returns the placeholder that a text beginning with `$` has, and its length.
fn parse_placeholder(text: &str) -> (Option<Placeholder>, usize) {
    let behind = &text[1..];
    if behind.starts_with('$') {
        return (None, 2);
    }
    // `$100` is a price.
    let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        let word = behind[..digits].parse().ok().filter(|number| (1..=9).contains(number) && digits == 1);
        return (word.map(Placeholder::Word), 1 + digits);
    }
    let name = behind.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    ((&behind[..name] == "ARGUMENTS").then_some(Placeholder::All), 1 + name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand_with_line(text: &str, line: &str) -> String {
        expand_arguments(text, &CommandArguments::parse_arguments(line)).unwrap()
    }

    #[test]
    fn arguments_take_their_places_in_one_pass() {
        let cases = [
            ("Look at $ARGUMENTS.", "issue 42", "Look at issue 42."),
            ("$2 before $1", "one two", "two before one"),
            ("$1 and $2", "'one two' three", "one two and three"),
            ("all: $ARGUMENTS", "'one two' three", "all: 'one two' three"),
            ("$1", "$2 $ARGUMENTS", "$2"),
            ("$ARGUMENTS", "$1 $$", "$1 $$"),
            ("$1|$2|$9", "one", "one||"),
            ("$ARGUMENTS", "", ""),
            ("$1st", "x", "xst"),
            ("it costs $100, $0, $10 and $1", "x", "it costs $100, $0, $10 and x"),
            ("$$1 $HOME ${1} $ARGUMENTS_X $", "", "$$1 $HOME ${1} $ARGUMENTS_X $"),
            ("über $1 €", "größe", "über größe €"),
            ("$ARGUMENTS", "a\n  b", "a\n  b"),
            ("$ARGUMENTS", "don't", "don't"),
            ("Do it.\n", "now please", "Do it.\n\nArguments:\nnow please"),
            ("Do it.", "", "Do it."),
            ("$$ $100", "x", "$$ $100\n\nArguments:\nx"),
        ];
        for (text, arguments, expanded) in cases {
            assert_eq!(expand_with_line(text, arguments), expanded, "{text:?} {arguments:?}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        assert_eq!(expand_arguments("$1", &CommandArguments::parse_arguments("don't")), Err(ExpandError::OpenQuote));
        let long = CommandArguments::parse_arguments(&"x".repeat(10_000));
        assert_eq!(expand_arguments(&"$ARGUMENTS ".repeat(200), &long), Err(ExpandError::TooLong));
        assert_eq!(expand_arguments(&"x".repeat(2 * MAX_PROMPT_BYTES), &long), Err(ExpandError::TooLong));
    }
}
