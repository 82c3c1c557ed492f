//! A long text in several messages, each within its platform's limit.
//!
//! A cut is made between paragraphs if it can be, else between lines, words, characters. A code block
//! that is cut is closed, and opened again in the next message with its language. Each message is
//! looked at by itself, as the platform will: whatever it leaves open is closed.

mod fence;

use std::ops::Range;

use fence::Fence;

/// What a platform counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Characters,
    /// Half the width of UTF-16: what JavaScript takes for a character.
    Utf16,
}

/// How long a message may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub most: usize,
    pub unit: Unit,
}

impl Limit {
    pub const GITHUB: Self = Self { most: 65_000, unit: Unit::Characters };
    pub const SLACK: Self = Self { most: 12_000, unit: Unit::Characters };
    pub const DISCORD: Self = Self { most: 2_000, unit: Unit::Characters };
    pub const TELEGRAM: Self = Self { most: 4_096, unit: Unit::Utf16 };

    /// The same with room for something else.
    pub fn less(self, room: usize) -> Self {
        Self { most: self.most.saturating_sub(room), ..self }
    }

    fn of(self, c: char) -> usize {
        match self.unit {
            Unit::Characters => 1,
            Unit::Utf16 => c.len_utf16(),
        }
    }

    fn length(self, text: &str) -> usize {
        text.chars().map(|c| self.of(c)).sum()
    }

    /// How many bytes of a text fit into so many units; at least one character. What ends a line is
    /// one, even if it is two.
    fn fitting(self, text: &str, units: usize) -> usize {
        let first = if text.starts_with("\r\n") { 2 } else { text.chars().next().map_or(0, char::len_utf8) };
        let mut used = 0;
        for (at, c) in text.char_indices() {
            used += self.of(c);
            if used > units && at >= first {
                let ends_inside = text[..at].ends_with('\r') && c == '\n' && at > first;
                return if ends_inside { at - 1 } else { at };
            }
        }
        text.len()
    }
}

/// One message: a piece of the text, and what was put around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// As it is to be sent.
    pub text: String,
    /// Which bytes of the whole text it holds.
    pub of: Range<usize>,
}

/// The messages that a text is sent as. What is only blank is not sent.
pub fn split(text: &str, limit: Limit) -> Vec<String> {
    parts(text, limit).into_iter().map(|part| part.text).filter(|text| !text.trim().is_empty()).collect()
}

/// The parts of a text, in order, without a gap.
pub fn parts(text: &str, limit: Limit) -> Vec<Part> {
    let (mut parts, mut at, mut open) = (Vec::new(), 0, None::<Fence>);
    while at < text.len() {
        let (part, left_open) = next(&text[at..], open.as_ref(), limit);
        let end = at + part.of.end;
        parts.push(Part { text: part.text, of: at..end });
        (at, open) = (end, left_open);
    }
    parts
}

/// The first message of the rest, and the code block that it was cut in.
fn next(rest: &str, open: Option<&Fence>, limit: Limit) -> (Part, Option<Fence>) {
    let head = open.map(Fence::opening).unwrap_or_default();
    let mut room = limit.most.saturating_sub(limit.length(&head)).max(1);
    for tries in 0.. {
        let fits = limit.fitting(rest, room);
        let end = if fits == rest.len() { fits } else { cut(&rest[..fits], open) };
        let text = match open {
            Some(fence) => head.clone() + &fence.inside(&rest[..end]),
            None => rest[..end].to_owned(),
        };
        let left = Fence::left_open(&text);
        let tail = left.as_ref().map(|fence| fence.closing(&text)).unwrap_or_default();
        let length = limit.length(&text) + limit.length(&tail);
        if length <= limit.most || room == 1 {
            // A fence that would take the room of the text is not opened again.
            let again = left.filter(|fence| limit.length(&fence.opening()) <= limit.most / 4);
            return (Part { text: text + &tail, of: 0..end }, again);
        }
        // What closes it needs room, too.
        let less = if tries < 8 { length - limit.most } else { room / 2 };
        room = limit.length(&rest[..end]).saturating_sub(less).max(1);
    }
    unreachable!("the room shrinks to nothing")
}

/// Where to cut a text that has to be cut: as late as possible, and as gently.
fn cut(window: &str, open: Option<&Fence>) -> usize {
    // Not so early that next to nothing is sent.
    let least = window.len() / 4;
    let blocks = blocks(window, open);
    let in_block = |at: usize| blocks.iter().any(|block| block.start < at && at < block.end);
    // A block that holds nothing looks odd: neither behind its first line nor before its last one.
    let odd = |at: usize| blocks.iter().any(|block| is_edge(&window[block.clone()], at.wrapping_sub(block.start)));
    let lines = || window.match_indices('\n').map(|(at, _)| at + 1).filter(|at| *at > least).rev();
    let is_blank = |at: usize| window[..at - 1].trim_end_matches([' ', '\t', '\r', '>']).ends_with('\n');
    let paragraph = lines().find(|at| is_blank(*at) && !in_block(*at));
    // A block goes whole into the next message if enough is left for this one.
    let whole = || lines().find(|at| !in_block(*at) && *at > window.len() / 2);
    let line = || lines().find(|at| !odd(*at)).or_else(|| lines().next());
    let word = || window.rfind([' ', '\t']).map(|at| at + 1).filter(|at| *at > least);
    paragraph.or_else(whole).or_else(line).or_else(word).unwrap_or(window.len())
}

/// The code blocks of a text, of which the first may be open when it begins.
fn blocks(window: &str, open: Option<&Fence>) -> Vec<Range<usize>> {
    let inside = open.map_or(0, |fence| fence.end_in(window));
    let found = fence::blocks(&window[inside..]).into_iter().map(|block| block.start + inside..block.end + inside);
    (inside > 0).then_some(0..inside).into_iter().chain(found).collect()
}

/// Whether a place is behind the first line of a block, or before the last one.
fn is_edge(block: &str, at: usize) -> bool {
    let first = block.find('\n').map(|at| at + 1);
    let last = block.trim_end_matches(['\r', '\n']).rfind('\n').map(|at| at + 1);
    first == Some(at) || last == Some(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn characters(most: usize) -> Limit {
        Limit { most, unit: Unit::Characters }
    }

    #[test]
    fn what_fits_is_one_message() {
        assert_eq!(split("hello", Limit::DISCORD), ["hello"]);
        assert_eq!(split(&"x".repeat(2000), Limit::DISCORD).len(), 1);
        assert!(split("", Limit::DISCORD).is_empty() && split(" \n\n", Limit::DISCORD).is_empty());
        assert_eq!(split("```rust\nlet x;", Limit::DISCORD), ["```rust\nlet x;\n```"], "what is open is closed");
    }

    #[test]
    fn one_more_than_fits_is_two() {
        for limit in [Limit::GITHUB, Limit::SLACK, Limit::DISCORD, Limit::TELEGRAM] {
            assert_eq!(split(&"x".repeat(limit.most), limit).len(), 1);
            assert_eq!(split(&"x".repeat(limit.most + 1), limit).len(), 2);
        }
        assert_eq!(split(&"😀".repeat(2049), Limit::TELEGRAM).len(), 2, "two units each");
        assert_eq!(split(&"😀".repeat(2000), Limit::DISCORD).len(), 1);
    }

    #[test]
    fn paragraphs_then_lines_then_words_then_characters() {
        assert_eq!(split("one two\n\nthree four\nfive", characters(20)), ["one two\n\n", "three four\nfive"]);
        assert_eq!(split("one two three\nfour five", characters(20)), ["one two three\n", "four five"]);
        assert_eq!(split("one two three four five", characters(20)), ["one two three four ", "five"]);
        assert_eq!(split("0123456789abcdefghijk", characters(20)), ["0123456789abcdefghij", "k"]);
    }

    #[test]
    fn a_code_block_is_closed_and_opened_again_with_its_language() {
        let text = "Look:\n\n```rust title\nlet a = 1;\nlet b = 2;\nlet c = 3;\n```\n\nDone.";
        assert_eq!(
            split(text, characters(40)),
            ["Look:\n\n```rust title\nlet a = 1;\n```", "```rust\nlet b = 2;\nlet c = 3;\n```\n\nDone."]
        );
        let listed = "1. Do\n\n   ~~~~sh\n   one\n   two\n   three\n   ~~~~\n2. Then\n";
        assert_eq!(
            split(listed, characters(36)),
            ["1. Do\n\n   ~~~~sh\n   one\n   ~~~~", "~~~~sh\ntwo\nthree\n~~~~\n", "2. Then\n"]
        );
        let quoted = "> ```\n> one one one\n> two two two\n> ```\n";
        assert_eq!(split(quoted, characters(36)), ["> ```\n> one one one\n> ```", "> ```\n> two two two\n> ```\n"]);
    }

    #[test]
    fn a_block_goes_whole_into_the_next_message_if_it_can() {
        let text = format!("{}\n```\nshort\n```\n", "word ".repeat(5));
        assert_eq!(split(&text, characters(36)), [format!("{}\n", "word ".repeat(5)), "```\nshort\n```\n".to_owned()]);
    }

    #[test]
    fn what_ends_a_line_stays_together() {
        for most in 2..12 {
            for part in parts(&"ab\r\n".repeat(20), characters(most)) {
                assert!(!part.text.ends_with('\r') && !part.text.starts_with('\n'), "{most}: {part:?}");
            }
        }
    }

    /// Whether something behind a message would stand in its code.
    fn leaves_open(message: &str) -> bool {
        let text = format!("{message}\n\nBEHIND");
        let layers = crate::markdown::Layers::of(&text);
        layers.is_code(text.len() - 1)
    }

    fn fences(message: &str) -> usize {
        message.lines().filter(|line| line.trim_start_matches([' ', '>']).starts_with("```")).count()
    }

    fn check(text: &str, limit: Limit) -> Result<(), TestCaseError> {
        let parts = parts(text, limit);
        let mut at = 0;
        for part in &parts {
            prop_assert_eq!(part.of.start, at, "no gap");
            prop_assert!(part.of.end > at);
            prop_assert!(limit.length(&part.text) <= limit.most, "{:?}", part);
            prop_assert!(!leaves_open(&part.text), "{:?}", part.text);
            at = part.of.end;
        }
        prop_assert_eq!(at, text.len());
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn anything_is_cut_well(
            text in "(```(rust)?\n|~~~~\n|    |> |- |1\\. |<!--|\r\n|\n|\n\n|[a-z]{1,9} |é|😀|`|\t){0,60}",
            most in 20usize..120,
            utf16 in any::<bool>(),
        ) {
            check(&text, Limit { most, unit: if utf16 { Unit::Utf16 } else { Unit::Characters } })?;
        }

        #[test]
        fn any_text_at_all(text in any::<String>(), most in 8usize..40) {
            check(&text, characters(most))?;
        }

        #[test]
        fn plain_blocks_stay_plain(
            pieces in prop::collection::vec(("[a-z \n]{0,80}", "[a-z ();\n]{0,200}", any::<bool>()), 1..6),
            most in 60usize..200,
        ) {
            let mut text = String::new();
            for (words, code, tagged) in pieces {
                let language = if tagged { "rust" } else { "" };
                text += &format!("{words}\n\n```{language}\n{code}\n```\n\n");
            }
            check(&text, characters(most))?;
            for part in parts(&text, characters(most)) {
                prop_assert_eq!(fences(&part.text) % 2, 0, "{:?}", part.text);
                // What was code is code, and what was not is not.
                let layers = crate::markdown::Layers::of(&part.text);
                for (at, line) in part.text.match_indices("();") {
                    prop_assert!(layers.is_code(at), "{line} in {:?}", part.text);
                }
            }
        }
    }
}
