//! Parses a command as it was typed: a name, words, flags.

use grove_environments::problem::Problem;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    pub name: String,
    words: Vec<String>,
}

/// Returns the name of the command that a text begins with: `/` and a word. `/usr/bin` is a path.
pub fn command_name(text: &str) -> Option<&str> {
    let rest = text.trim_start().strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let word = &rest[..end];
    let plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
    plain.then_some(word)
}

/// Splits a text at white space, which quotes protect. Returns the words with the position where each ends,
/// and whether all quotes are closed.
fn split_words(text: &str) -> (Vec<(String, usize)>, bool) {
    let mut words = Vec::new();
    let (mut word, mut quote) = (None::<String>, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take().map(|word| (word, at))),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    let closed = quote.is_none();
    words.extend(word.filter(|_| closed).map(|word| (word, text.len())));
    (words, closed)
}

fn not_closed() -> Problem {
    Problem::new("usage", "A quote is not closed.", "Close it, or leave it away.")
}

impl CommandLine {
    pub fn parse_words(text: &str) -> Result<Self, Problem> {
        let (words, closed) = split_words(text.trim());
        if !closed {
            return Err(not_closed());
        }
        let mut words = words.into_iter().map(|(word, _)| word);
        let name = words.next().map(|first| first.trim_start_matches('/').to_owned()).unwrap_or_default();
        Ok(Self { name, words: words.collect() })
    }

    /// Parses everything after the name as one word: a title may contain any quotes. Only the first line
    /// counts.
    pub fn parse_whole_line(text: &str) -> Self {
        let first = text.trim().lines().next().unwrap_or_default();
        let (name, rest) = first.split_once(char::is_whitespace).unwrap_or((first, ""));
        let rest = rest.trim();
        let quoted = ['"', '\''].into_iter().find_map(|quote| rest.strip_prefix(quote)?.strip_suffix(quote));
        let rest = quoted.unwrap_or(rest).trim();
        let words = if rest.is_empty() { Vec::new() } else { vec![rest.to_owned()] };
        Self { name: name.trim_start_matches('/').to_owned(), words }
    }

    /// Removes the first word and makes it the name: `worktree create x` becomes `create x`.
    pub fn next_word(&mut self) -> Option<String> {
        (!self.words.is_empty()).then(|| self.words.remove(0))
    }

    /// Tells whether a flag was given, and removes it.
    pub fn take_flag(&mut self, flag: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != flag);
        self.words.len() < before
    }

    /// Returns the value after a flag, and removes both.
    pub fn take_flag_value(&mut self, flag: &str) -> Result<Option<String>, Problem> {
        let with_equals = format!("{flag}=");
        if let Some(at) = self.words.iter().position(|word| word.starts_with(&with_equals)) {
            return Ok(Some(self.words.remove(at)[with_equals.len()..].to_owned()));
        }
        let Some(at) = self.words.iter().position(|word| word == flag) else { return Ok(None) };
        self.words.remove(at);
        if at < self.words.len() {
            return Ok(Some(self.words.remove(at)));
        }
        Err(Problem::new("usage", format!("Something is missing behind `{flag}`."), "Give it, or leave the flag away."))
    }

    /// Returns the only word; zero or several words are an error.
    pub fn take_one_word(&mut self, what: &str) -> Result<String, Problem> {
        match self.at_most_one()? {
            Some(word) => Ok(word),
            None => {
                Err(Problem::new("usage", format!("{what} is missing."), format!("Write `/{} {what}`.", self.name)))
            }
        }
    }

    pub fn at_most_one(&mut self) -> Result<Option<String>, Problem> {
        if let Some(flag) = self.words.iter().find(|word| word.starts_with("--")) {
            let message = format!("`/{}` does not know `{flag}`.", self.name);
            return Err(Problem::new("usage", message, "Leave it away; `/help` shows how it is written."));
        }
        match self.words.as_slice() {
            [] => Ok(None),
            [_] => Ok(self.next_word()),
            [_, more, ..] => {
                let message = format!("`/{}` does not know what to do with `{more}`.", self.name);
                Err(Problem::new("usage", message, "Quote what belongs together; `/help` shows how it is written."))
            }
        }
    }
}

/// The arguments of a custom command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandArguments {
    /// The arguments as they were typed.
    pub text: String,
    /// The arguments as words; `None` if a quote is not closed.
    pub words: Option<Vec<String>>,
}

impl CommandArguments {
    pub fn parse_arguments(text: &str) -> Self {
        let (words, closed) = split_words(text.trim());
        let words = closed.then(|| words.into_iter().map(|(word, _)| word).collect());
        Self { text: text.trim().to_owned(), words }
    }
}

/// `/run NAME [ARGS]`: the custom command that is called, and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomCommandCall {
    pub name: String,
    pub arguments: CommandArguments,
}

impl CustomCommandCall {
    /// Parses a call. Only the name must be clear; a single quote among the arguments may be an apostrophe.
    pub fn parse_call(text: &str) -> Result<Self, Problem> {
        let text = text.trim();
        let (words, closed) = split_words(text);
        match words.get(1) {
            Some((name, end)) => {
                Ok(Self { name: name.clone(), arguments: CommandArguments::parse_arguments(&text[*end..]) })
            }
            None if !closed => Err(not_closed()),
            None => {
                let hint = "Write `/run NAME [ARGS]`; `/commands` lists the names.";
                Err(Problem::new("usage", "NAME is missing.", hint))
            }
        }
    }
}

/// Tells whether a message is handled without waiting for its turn.
pub fn can_skip_queue(text: &str) -> bool {
    command_name(text).is_some_and(|name| name == "stop")
}

/// Returns the most similar of the names, if one is similar enough.
pub(crate) fn nearest_name<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = |name: &&str| strsim::jaro_winkler(wrong, name);
    let best = names.into_iter().max_by(|a, b| near(a).total_cmp(&near(b)))?;
    (near(&best) > 0.75).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_name_and_what_stands_behind_it() {
        let call = |text: &str| {
            let CustomCommandCall { name, arguments } = CustomCommandCall::parse_call(text).unwrap();
            (name, arguments.text, arguments.words)
        };
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(call("/run review"), ("review".into(), String::new(), words(&[])));
        assert_eq!(
            call(" /run  'my review'\n a  'b c'\nd "),
            ("my review".into(), "a  'b c'\nd".into(), words(&["a", "b c", "d"]))
        );
        assert_eq!(call("/run fix it doesn't work"), ("fix".into(), "it doesn't work".into(), None));
        assert_eq!(CustomCommandCall::parse_call("/run").unwrap_err().message, "NAME is missing.");
        assert_eq!(CustomCommandCall::parse_call("/run 'x").unwrap_err().message, "A quote is not closed.");
    }

    #[test]
    fn a_command_is_told_from_words() {
        assert_eq!(command_name("/help"), Some("help"));
        assert_eq!(command_name("  /worktree list"), Some("worktree"));
        for words in ["hello", "/usr/bin is full", "/", "/ help", "// comment", "see /help", "/1"] {
            assert_eq!(command_name(words), None, "{words}");
        }
    }

    #[test]
    fn words_flags_and_quotes() {
        let mut line = CommandLine::parse_words("/worktree create 'my name' --from v1.2 --force").unwrap();
        assert_eq!(line.next_word().as_deref(), Some("create"));
        assert!(line.take_flag("--force") && !line.take_flag("--force"));
        assert_eq!(line.take_flag_value("--from").unwrap().as_deref(), Some("v1.2"));
        assert_eq!(line.take_one_word("NAME").unwrap(), "my name");
        assert!(CommandLine::parse_words("/x 'y").is_err());
        assert!(CommandLine::parse_words("/x a b").unwrap().take_one_word("NAME").is_err());
        assert!(CommandLine::parse_words("/x --frce").unwrap().at_most_one().is_err());
        assert!(CommandLine::parse_words("/x --from").unwrap().take_flag_value("--from").is_err());
    }

    #[test]
    fn a_title_may_be_anything() {
        let title = |text: &str| CommandLine::parse_whole_line(text).next_word();
        assert_eq!(title("/pr Don't crash").as_deref(), Some("Don't crash"));
        assert_eq!(title(" /pr  'Fix: the \"login\"' ").as_deref(), Some("Fix: the \"login\""));
        assert_eq!(title("/pr --draft x\nmore").as_deref(), Some("--draft x"));
        assert_eq!(title("/pr"), None);
        assert_eq!(title("/pr \"\""), None);
        assert_eq!(CommandLine::parse_whole_line("/pr x").name, "pr");
    }
}
