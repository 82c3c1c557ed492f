//! Fenced code blocks, and how to split them.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use crate::markdown;

/// A code block that a message leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFence {
    /// The text before the fence: an indentation, a quote.
    before: String,
    /// The run of backticks or tildes.
    run: String,
    language: String,
}

/// The number of characters of a language that are kept when a block is opened again.
const MAX_LANGUAGE_LENGTH: usize = 40;

/// Returns the ranges of a text's fenced code blocks.
pub fn fenced_block_ranges(text: &str) -> Vec<Range<usize>> {
    fenced_blocks(text).map(|(_, range)| range).collect()
}

fn fenced_blocks(text: &str) -> impl Iterator<Item = (String, Range<usize>)> {
    Parser::new_ext(text, markdown::parser_options()).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => Some((info.into_string(), range)),
        _ => None,
    })
}

impl OpenFence {
    /// Returns the block that a text ends in, if it is not closed.
    pub fn left_open(text: &str) -> Option<Self> {
        let (info, range) = fenced_blocks(text).last()?;
        if !text[range.end..].trim().is_empty() {
            return None;
        }
        let block = &text[range.start..];
        let start = range.start + block.len() - block.trim_start().len();
        let sign = text[start..].chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let run: String = text[start..].chars().take_while(|c| *c == sign).collect();
        let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
        // The marker of a list is only on its first line.
        let before = text[line..start].chars().map(|c| if c == '>' || c == '\t' { c } else { ' ' }).collect();
        let language = info.split([' ', '\t', ',']).next().unwrap_or_default();
        let language: String =
            if language.chars().count() > MAX_LANGUAGE_LENGTH { String::new() } else { language.to_owned() };
        let fence = Self { before, run, language };
        let behind = &text[start..];
        let closed = behind.lines().skip(1).any(|line| fence.is_closed_by(line));
        (!closed).then_some(fence)
    }

    /// Returns the line that closes the block after a text.
    pub fn closing_line(&self, text: &str) -> String {
        let line = if text.ends_with('\n') { "" } else { "\n" };
        format!("{line}{}{}", self.before, self.run)
    }

    /// Returns the line that opens the block again. A quote continues; the list around it does not.
    pub fn opening_line(&self) -> String {
        let quote = self.before.rfind('>').map_or("", |at| &self.before[..=at]);
        let space = if quote.is_empty() { "" } else { " " };
        format!("{quote}{space}{}{}\n", self.run, self.language)
    }

    /// Returns how many bytes of a text that begins inside this block belong to it.
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

    /// Returns a text that begins inside this block, as it is shown after [`Self::opening_line`]: the lines
    /// of the block without the indentation that they had in their list.
    pub fn continue_text(&self, text: &str) -> String {
        let indent = self.indent_width();
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

    fn indent_width(&self) -> usize {
        self.before.rfind('>').map_or(self.before.len(), |at| self.before.len() - at - 1)
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = if self.before.contains('>') { line.trim_start_matches([' ', '>']) } else { line };
        let blank = line.len() - line.trim_start_matches(' ').len();
        let run = line[blank..].trim_end();
        let sign = self.run.chars().next().unwrap_or('`');
        blank <= self.indent_width() + 3 && run.len() >= self.run.len() && run.chars().all(|c| c == sign)
    }
}
