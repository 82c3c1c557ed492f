//! A command's words with its arguments in them.

use crate::command_line::Arguments;

/// What an agent is told at most.
const LONGEST: usize = 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub enum Bad {
    TooLong,
    /// Words are wanted one by one, and where they end is not clear.
    OpenQuote,
}

/// `$ARGUMENTS` is all that stands behind the name, `$1` to `$9` a word of it, or nothing. What is put in
/// is not looked at again. Words that take no arguments get them below.
pub fn expand(text: &str, arguments: &Arguments) -> Result<String, Bad> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    let mut taken = false;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let (wanted, length) = placeholder(&rest[at..]);
        match wanted {
            Some(Wanted::All) => expanded.push_str(&arguments.text),
            Some(Wanted::Word(number)) => {
                let words = arguments.words.as_ref().ok_or(Bad::OpenQuote)?;
                expanded.push_str(words.get(number - 1).map_or("", String::as_str));
            }
            None => expanded.push_str(&rest[at..at + length]),
        }
        taken |= wanted.is_some();
        if expanded.len() > LONGEST {
            return Err(Bad::TooLong);
        }
        rest = &rest[at + length..];
    }
    expanded.push_str(rest);
    if !taken && !arguments.text.is_empty() {
        expanded = format!("{}\n\nArguments:\n{}", expanded.trim_end(), arguments.text);
    }
    if expanded.len() > LONGEST { Err(Bad::TooLong) } else { Ok(expanded) }
}

#[derive(Clone, Copy)]
enum Wanted {
    All,
    Word(usize),
}

/// What a text that begins with `$` asks for, and how long that is.
fn placeholder(text: &str) -> (Option<Wanted>, usize) {
    let behind = &text[1..];
    if behind.starts_with('$') {
        return (None, 2);
    }
    // `$100` is a price.
    let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        let word = behind[..digits].parse().ok().filter(|number| (1..=9).contains(number) && digits == 1);
        return (word.map(Wanted::Word), 1 + digits);
    }
    let name = behind.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    ((&behind[..name] == "ARGUMENTS").then_some(Wanted::All), 1 + name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, line: &str) -> String {
        expand(text, &Arguments::read(line)).unwrap()
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
            assert_eq!(with(text, arguments), expanded, "{text:?} {arguments:?}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        assert_eq!(expand("$1", &Arguments::read("don't")), Err(Bad::OpenQuote));
        let long = Arguments::read(&"x".repeat(10_000));
        assert_eq!(expand(&"$ARGUMENTS ".repeat(200), &long), Err(Bad::TooLong));
        assert_eq!(expand(&"x".repeat(2 * LONGEST), &long), Err(Bad::TooLong));
    }
}
