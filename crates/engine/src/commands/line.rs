//! A command as it was typed: a name, words, flags.

use crate::Problem;

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

impl Line {
    /// Words are separated by white space; quotes keep it.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let mut words: Vec<String> = Vec::new();
        let (mut word, mut quote) = (None::<String>, None);
        for c in text.trim().chars() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (Some(_), c) => word.get_or_insert_default().push(c),
                (None, '"' | '\'') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None, c) if c.is_whitespace() => words.extend(word.take()),
                (None, c) => word.get_or_insert_default().push(c),
            }
        }
        if quote.is_some() {
            return Err(Problem::new("usage", "A quote is not closed.", "Close it, or leave it away."));
        }
        words.extend(word);
        let name = words.first().map(|first| first.trim_start_matches('/').to_owned()).unwrap_or_default();
        Ok(Self { name, words: words.into_iter().skip(1).collect() })
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
