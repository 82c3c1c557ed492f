//! What the model does. The last line of the person's words that begins with one of these decides:
//!
//! - `WRITE path: content` – calls the agent's tool to write a file
//! - `RUN command` – calls the agent's shell
//! - `RECALL` – says what it was told earlier in this conversation
//! - `SLOW` – says a word at a time, for half a minute
//!
//! Anything else is said back. When a tool was called, the answer says what that gave.

/// How many words an answer has that takes its time.
const WORDS: usize = 300;

/// A conversation, as any of the protocols tells it.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// What the person said, first to last.
    pub said: Vec<String>,
    /// What a tool gave since.
    result: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Write {
        path: String,
        content: String,
    },
    Run(String),
    Say(String),
    /// Word by word.
    Slow(Vec<String>),
}

impl Told {
    pub(super) fn person<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        // Agents put remarks of their own, in angle brackets, beside the person's words.
        let words = texts.filter(|text| !text.starts_with('<')).collect::<Vec<_>>().join("\n");
        if !words.trim().is_empty() {
            self.said.push(words);
            self.result = None;
        }
    }

    pub(super) fn tool<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        self.result = Some(texts.collect::<Vec<_>>().join("\n"));
    }
}

pub(super) fn decide(told: &Told) -> Deed {
    if let Some(result) = &told.result {
        return Deed::Say(format!("Done: {}", result.trim()));
    }
    let Some((last, earlier)) = told.said.split_last() else {
        return Deed::Say("Nobody said anything.".to_owned());
    };
    let ordered = last.lines().rev().find_map(|line| ordered(line.trim(), earlier));
    ordered.unwrap_or_else(|| Deed::Say(format!("You said: {}", last.trim())))
}

fn ordered(line: &str, earlier: &[String]) -> Option<Deed> {
    if let Some((path, content)) = line.strip_prefix("WRITE ").and_then(|rest| rest.split_once(": ")) {
        return Some(Deed::Write { path: path.to_owned(), content: content.to_owned() });
    }
    if let Some(command) = line.strip_prefix("RUN ") {
        return Some(Deed::Run(command.to_owned()));
    }
    match line {
        "RECALL" => Some(Deed::Say(format!("Earlier: {}", earlier.join(" | ")))),
        "SLOW" => Some(Deed::Slow((1..=WORDS).map(|word| format!("word{word} ")).collect())),
        _ => None,
    }
}

impl Deed {
    /// What is said, in the pieces in which it comes.
    pub(super) fn pieces(&self) -> Vec<&str> {
        match self {
            Deed::Say(text) => {
                // In two pieces, so that whoever puts them together shows that it does.
                let middle = text.len() / 2;
                let middle = (middle..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
                vec![&text[..middle], &text[middle..]]
            }
            Deed::Slow(words) => words.iter().map(String::as_str).collect(),
            Deed::Write { .. } => vec!["I write the file."],
            Deed::Run(_) => vec!["I run the command."],
        }
    }

    pub(super) fn is_slow(&self) -> bool {
        matches!(self, Deed::Slow(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(said: &[&str]) -> Told {
        let mut told = Told::default();
        said.iter().for_each(|text| told.person([*text].into_iter()));
        told
    }

    #[test]
    fn the_last_order_counts_and_what_is_none_is_said_back() {
        let write = Deed::Write { path: "a b.txt".to_owned(), content: "x: y".to_owned() };
        assert_eq!(decide(&told(&["RUN ls\n\nWRITE a b.txt: x: y"])), write);
        assert_eq!(decide(&told(&["RUN ls -l"])), Deed::Run("ls -l".to_owned()));
        assert_eq!(decide(&told(&["please RUN"])), Deed::Say("You said: please RUN".to_owned()));
        assert_eq!(decide(&told(&["one", "<remark>", "two", "RECALL"])), Deed::Say("Earlier: one | two".to_owned()));
    }

    #[test]
    fn what_a_tool_gave_is_the_answer_until_somebody_speaks_again() {
        let mut told = told(&["RUN ls"]);
        told.tool(["<b>\n"].into_iter());
        assert_eq!(decide(&told), Deed::Say("Done: <b>".to_owned()));
        told.person(["thanks"].into_iter());
        assert_eq!(decide(&told), Deed::Say("You said: thanks".to_owned()));
    }

    #[test]
    fn pieces_are_the_whole() {
        for text in ["", "a", "äöü", "one two"] {
            assert_eq!(Deed::Say(text.to_owned()).pieces().concat(), text);
        }
    }
}
