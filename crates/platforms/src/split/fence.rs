//! Code blocks between fences, as far as cutting them goes.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use crate::markdown;

/// A code block that a message leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// What stands before the fence: an indentation, a quote.
    before: String,
    /// The run of backticks or tildes.
    run: String,
    language: String,
}

/// What is kept of a language when a block is opened again.
const LANGUAGE: usize = 40;

/// The ranges of a text's fenced code blocks.
pub fn blocks(text: &str) -> Vec<Range<usize>> {
    fenced(text).map(|(_, range)| range).collect()
}

fn fenced(text: &str) -> impl Iterator<Item = (String, Range<usize>)> {
    Parser::new_ext(text, markdown::options()).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => Some((info.into_string(), range)),
        _ => None,
    })
}

impl Fence {
    /// The block that a text ends in, if nothing closes it.
    pub fn left_open(text: &str) -> Option<Self> {
        let (info, range) = fenced(text).last()?;
        if !text[range.end..].trim().is_empty() {
            return None;
        }
        let block = &text[range.start..];
        let start = range.start + block.len() - block.trim_start().len();
        let sign = text[start..].chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let run: String = text[start..].chars().take_while(|c| *c == sign).collect();
        let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
        // The marker of a list stands on its first line only.
        let before = text[line..start].chars().map(|c| if c == '>' || c == '\t' { c } else { ' ' }).collect();
        let language = info.split([' ', '\t', ',']).next().unwrap_or_default();
        let language: String = if language.chars().count() > LANGUAGE { String::new() } else { language.to_owned() };
        let fence = Self { before, run, language };
        let behind = &text[start..];
        let closed = behind.lines().skip(1).any(|line| fence.is_closed_by(line));
        (!closed).then_some(fence)
    }

    /// What is put behind a text that ends in this block.
    pub fn closing(&self, text: &str) -> String {
        let line = if text.ends_with('\n') { "" } else { "\n" };
        format!("{line}{}{}", self.before, self.run)
    }

    /// The line that opens it again. A quote goes on; the list that it stood in does not.
    pub fn opening(&self) -> String {
        let quote = self.before.rfind('>').map_or("", |at| &self.before[..=at]);
        let space = if quote.is_empty() { "" } else { " " };
        format!("{quote}{space}{}{}\n", self.run, self.language)
    }

    /// How many bytes of a text that begins inside this block belong to it.
    pub fn end_in(&self, text: &str) -> usize {
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            at += line.len();
            if self.is_closed_by(line) {
                return at;
            }
        }
        text.len()
    }

    /// A text that begins inside this block, as it is shown behind [`Fence::opening`]: the block's
    /// lines without the indentation that they had in their list.
    pub fn inside(&self, text: &str) -> String {
        let indent = self.indent();
        if indent == 0 || self.before.contains('>') {
            return text.to_owned();
        }
        let (block, rest) = text.split_at(self.end_in(text));
        let mut out = String::with_capacity(text.len());
        for line in block.split_inclusive('\n') {
            let blank = line.len() - line.trim_start_matches(' ').len();
            out.push_str(&line[blank.min(indent)..]);
        }
        out + rest
    }

    fn indent(&self) -> usize {
        self.before.rfind('>').map_or(self.before.len(), |at| self.before.len() - at - 1)
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = if self.before.contains('>') { line.trim_start_matches([' ', '>']) } else { line };
        let blank = line.len() - line.trim_start_matches(' ').len();
        let run = line[blank..].trim_end();
        let sign = self.run.chars().next().unwrap_or('`');
        blank <= self.indent() + 3 && run.len() >= self.run.len() && run.chars().all(|c| c == sign)
    }
}
