//! A command as it was typed: a name, words, flags.

use grove_environments::problem::Problem;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    words: Vec<String>,
}

/// The name of the command that a text begins with: `/` and a word. `/usr/bin` is a path.
pub fn name(text: &str) -> Option<&str> {
    let rest = text.trim_start().strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let word = &rest[..end];
    let plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
    plain.then_some(word)
}

/// Words and where each ends, separated by white space; quotes keep it. And whether all are closed.
fn words(text: &str) -> (Vec<(String, usize)>, bool) {
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

impl Line {
    pub fn read(text: &str) -> Result<Self, Problem> {
        let (words, closed) = words(text.trim());
        if !closed {
            return Err(not_closed());
        }
        let mut words = words.into_iter().map(|(word, _)| word);
        let name = words.next().map(|first| first.trim_start_matches('/').to_owned()).unwrap_or_default();
        Ok(Self { name, words: words.collect() })
    }

    /// All that stands behind the name is one word: a title may have any quotes. Of several lines, the
    /// first.
    pub fn whole(text: &str) -> Self {
        let first = text.trim().lines().next().unwrap_or_default();
        let (name, rest) = first.split_once(char::is_whitespace).unwrap_or((first, ""));
        let rest = rest.trim();
        let quoted = ['"', '\''].into_iter().find_map(|quote| rest.strip_prefix(quote)?.strip_suffix(quote));
        let rest = quoted.unwrap_or(rest).trim();
        let words = if rest.is_empty() { Vec::new() } else { vec![rest.to_owned()] };
        Self { name: name.trim_start_matches('/').to_owned(), words }
    }

    /// The first word becomes the name: `worktree create x` is `create x`.
    pub fn next_word(&mut self) -> Option<String> {
        (!self.words.is_empty()).then(|| self.words.remove(0))
    }

    /// Whether a flag was given; it is taken away.
    pub fn flag(&mut self, flag: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != flag);
        self.words.len() < before
    }

    /// The value behind a flag; both are taken away.
    pub fn value(&mut self, flag: &str) -> Result<Option<String>, Problem> {
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

    /// Exactly one word.
    pub fn one(&mut self, what: &str) -> Result<String, Problem> {
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

/// What somebody gives a custom command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// As it was typed.
    pub text: String,
    /// The same in words; `None`: a quote is not closed.
    pub words: Option<Vec<String>>,
}

impl Arguments {
    pub fn read(text: &str) -> Self {
        let (words, closed) = words(text.trim());
        let words = closed.then(|| words.into_iter().map(|(word, _)| word).collect());
        Self { text: text.trim().to_owned(), words }
    }
}

/// `/run NAME [ARGS]`: which custom command is called, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    pub arguments: Arguments,
}

impl Call {
    /// Only the name must be clear; a single quote among the arguments may be an apostrophe.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let text = text.trim();
        let (words, closed) = words(text);
        match words.get(1) {
            Some((name, end)) => Ok(Self { name: name.clone(), arguments: Arguments::read(&text[*end..]) }),
            None if !closed => Err(not_closed()),
            None => {
                let hint = "Write `/run NAME [ARGS]`; `/commands` lists the names.";
                Err(Problem::new("usage", "NAME is missing.", hint))
            }
        }
    }
}

/// Whether something does not wait for its turn.
pub fn overtakes(text: &str) -> bool {
    name(text).is_some_and(|name| name == "stop")
}

/// The nearest of the names, if any is near.
pub(crate) fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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
            let Call { name, arguments } = Call::read(text).unwrap();
            (name, arguments.text, arguments.words)
        };
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(call("/run review"), ("review".into(), String::new(), words(&[])));
        assert_eq!(
            call(" /run  'my review'\n a  'b c'\nd "),
            ("my review".into(), "a  'b c'\nd".into(), words(&["a", "b c", "d"]))
        );
        assert_eq!(call("/run fix it doesn't work"), ("fix".into(), "it doesn't work".into(), None));
        assert_eq!(Call::read("/run").unwrap_err().message, "NAME is missing.");
        assert_eq!(Call::read("/run 'x").unwrap_err().message, "A quote is not closed.");
    }

    #[test]
    fn a_command_is_told_from_words() {
        assert_eq!(name("/help"), Some("help"));
        assert_eq!(name("  /worktree list"), Some("worktree"));
        for words in ["hello", "/usr/bin is full", "/", "/ help", "// comment", "see /help", "/1"] {
            assert_eq!(name(words), None, "{words}");
        }
    }

    #[test]
    fn words_flags_and_quotes() {
        let mut line = Line::read("/worktree create 'my name' --from v1.2 --force").unwrap();
        assert_eq!(line.next_word().as_deref(), Some("create"));
        assert!(line.flag("--force") && !line.flag("--force"));
        assert_eq!(line.value("--from").unwrap().as_deref(), Some("v1.2"));
        assert_eq!(line.one("NAME").unwrap(), "my name");
        assert!(Line::read("/x 'y").is_err());
        assert!(Line::read("/x a b").unwrap().one("NAME").is_err());
        assert!(Line::read("/x --frce").unwrap().at_most_one().is_err());
        assert!(Line::read("/x --from").unwrap().value("--from").is_err());
    }

    #[test]
    fn a_title_may_be_anything() {
        let title = |text: &str| Line::whole(text).next_word();
        assert_eq!(title("/pr Don't crash").as_deref(), Some("Don't crash"));
        assert_eq!(title(" /pr  'Fix: the \"login\"' ").as_deref(), Some("Fix: the \"login\""));
        assert_eq!(title("/pr --draft x\nmore").as_deref(), Some("--draft x"));
        assert_eq!(title("/pr"), None);
        assert_eq!(title("/pr \"\""), None);
        assert_eq!(Line::whole("/pr x").name, "pr");
    }
}
