//! The actions of the model. The last line of the person's text that begins with one of these decides:
//!
//! - `WRITE path: content` – calls the agent's tool to write a file
//! - `RUN command` – calls the agent's shell
//! - `RECALL` – repeats the person's earlier texts of this conversation
//! - `SLOW` – answers a word at a time, for half a minute
//!
//! Any other text is repeated. After the call of a tool, the answer contains the tool's result.

/// The number of words of a slow answer.
const SLOW_WORD_COUNT: usize = 300;

/// A conversation, independent of the protocol.
#[derive(Debug, Default)]
pub(super) struct ModelConversation {
    /// The texts of the person, first to last.
    pub said: Vec<String>,
    /// The result of a tool since the last text.
    result: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ModelAction {
    Write {
        path: String,
        content: String,
    },
    Run(String),
    Say(String),
    /// Word by word.
    Slow(Vec<String>),
}

impl ModelConversation {
    pub(super) fn add_person_texts<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        // Agents put remarks of their own, in angle brackets, beside the person's text.
        let words = texts.filter(|text| !text.starts_with('<')).collect::<Vec<_>>().join("\n");
        if !words.trim().is_empty() {
            self.said.push(words);
            self.result = None;
        }
    }

    pub(super) fn set_tool_result<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        self.result = Some(texts.collect::<Vec<_>>().join("\n"));
    }
}

pub(super) fn decide_action(told: &ModelConversation) -> ModelAction {
    if let Some(result) = &told.result {
        return ModelAction::Say(format!("Done: {}", result.trim()));
    }
    let Some((last, earlier)) = told.said.split_last() else {
        return ModelAction::Say("Nobody said anything.".to_owned());
    };
    let ordered = last.lines().rev().find_map(|line| parse_instruction(line.trim(), earlier));
    ordered.unwrap_or_else(|| ModelAction::Say(format!("You said: {}", last.trim())))
}

fn parse_instruction(line: &str, earlier: &[String]) -> Option<ModelAction> {
    if let Some((path, content)) = line.strip_prefix("WRITE ").and_then(|rest| rest.split_once(": ")) {
        return Some(ModelAction::Write { path: path.to_owned(), content: content.to_owned() });
    }
    if let Some(command) = line.strip_prefix("RUN ") {
        return Some(ModelAction::Run(command.to_owned()));
    }
    match line {
        "RECALL" => Some(ModelAction::Say(format!("Earlier: {}", earlier.join(" | ")))),
        "SLOW" => Some(ModelAction::Slow((1..=SLOW_WORD_COUNT).map(|word| format!("word{word} ")).collect())),
        _ => None,
    }
}

impl ModelAction {
    /// Returns the text of the answer, in the pieces in which it is sent.
    pub(super) fn text_pieces(&self) -> Vec<&str> {
        match self {
            ModelAction::Say(text) => {
                // In two pieces, so that the tests show that the agent joins them.
                let middle = text.len() / 2;
                let middle = (middle..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
                vec![&text[..middle], &text[middle..]]
            }
            ModelAction::Slow(words) => words.iter().map(String::as_str).collect(),
            ModelAction::Write { .. } => vec!["I write the file."],
            ModelAction::Run(_) => vec!["I run the command."],
        }
    }

    pub(super) fn is_slow(&self) -> bool {
        matches!(self, ModelAction::Slow(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_conversation(said: &[&str]) -> ModelConversation {
        let mut told = ModelConversation::default();
        said.iter().for_each(|text| told.add_person_texts([*text].into_iter()));
        told
    }

    #[test]
    fn the_last_order_counts_and_what_is_none_is_said_back() {
        let write = ModelAction::Write { path: "a b.txt".to_owned(), content: "x: y".to_owned() };
        assert_eq!(decide_action(&build_conversation(&["RUN ls\n\nWRITE a b.txt: x: y"])), write);
        assert_eq!(decide_action(&build_conversation(&["RUN ls -l"])), ModelAction::Run("ls -l".to_owned()));
        assert_eq!(
            decide_action(&build_conversation(&["please RUN"])),
            ModelAction::Say("You said: please RUN".to_owned())
        );
        assert_eq!(
            decide_action(&build_conversation(&["one", "<remark>", "two", "RECALL"])),
            ModelAction::Say("Earlier: one | two".to_owned())
        );
    }

    #[test]
    fn a_tools_result_is_the_answer_until_the_next_message() {
        let mut told = build_conversation(&["RUN ls"]);
        told.set_tool_result(["<b>\n"].into_iter());
        assert_eq!(decide_action(&told), ModelAction::Say("Done: <b>".to_owned()));
        told.add_person_texts(["thanks"].into_iter());
        assert_eq!(decide_action(&told), ModelAction::Say("You said: thanks".to_owned()));
    }

    #[test]
    fn pieces_are_the_whole() {
        for text in ["", "a", "äöü", "one two"] {
            assert_eq!(ModelAction::Say(text.to_owned()).text_pieces().concat(), text);
        }
    }
}
