//! Splits a long text into several messages, each within its platform's limit.
//!
//! A cut is between paragraphs if possible, else between lines, words, characters. A code block that is cut
//! is closed, and opened again in the next message with its language. Each message is parsed by itself, as
//! the platform will parse it: everything that it leaves open is closed.

mod fence;

use std::ops::Range;

use fence::OpenFence;

/// The unit that a platform counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthUnit {
    Characters,
    /// UTF-16 code units: the characters of JavaScript.
    Utf16,
}

/// The maximum length of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimit {
    pub most: usize,
    pub unit: LengthUnit,
}

impl MessageLimit {
    pub const GITHUB: Self = Self { most: 65_000, unit: LengthUnit::Characters };
    pub const SLACK: Self = Self { most: 12_000, unit: LengthUnit::Characters };
    pub const DISCORD: Self = Self { most: 2_000, unit: LengthUnit::Characters };
    pub const TELEGRAM: Self = Self { most: 4_096, unit: LengthUnit::Utf16 };

    /// Returns the limit minus room for other text.
    pub fn reduced_by(self, room: usize) -> Self {
        Self { most: self.most.saturating_sub(room), ..self }
    }

    fn char_length(self, c: char) -> usize {
        match self.unit {
            LengthUnit::Characters => 1,
            LengthUnit::Utf16 => c.len_utf16(),
        }
    }

    fn text_length(self, text: &str) -> usize {
        text.chars().map(|c| self.char_length(c)).sum()
    }

    /// Returns how many bytes of a text fit into a number of units; at least one character. A line ending
    /// counts as one character, even if it is two.
    fn fitting_bytes(self, text: &str, units: usize) -> usize {
        let first = if text.starts_with("\r\n") { 2 } else { text.chars().next().map_or(0, char::len_utf8) };
        let mut used = 0;
        for (at, c) in text.char_indices() {
            used += self.char_length(c);
            if used > units && at >= first {
                let ends_inside = text[..at].ends_with('\r') && c == '\n' && at > first;
                return if ends_inside { at - 1 } else { at };
            }
        }
        text.len()
    }
}

/// One message: a piece of the text, and what was added around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagePart {
    /// The text to send.
    pub text: String,
    /// The bytes of the whole text that it contains.
    pub of: Range<usize>,
}

/// Returns the messages that a text is sent as. Blank messages are not sent.
pub fn split_message(text: &str, limit: MessageLimit) -> Vec<String> {
    split_parts(text, limit).into_iter().map(|part| part.text).filter(|text| !text.trim().is_empty()).collect()
}

/// Returns the messages that a text is sent as, if the platform gets something else than the text itself:
/// `measure` returns how long that is for a message. Blank messages are not sent.
pub fn split_converted(text: &str, limit: MessageLimit, measure: impl Fn(&str) -> usize) -> Vec<String> {
    let measure = |text: &str| measure(text).max(limit.text_length(text));
    let parts = split_measured(text, limit, &measure).into_iter().map(|part| part.text);
    parts.filter(|text| !text.trim().is_empty()).collect()
}

/// Returns the parts of a text, in order and without a gap.
pub fn split_parts(text: &str, limit: MessageLimit) -> Vec<MessagePart> {
    split_measured(text, limit, &|text| limit.text_length(text))
}

fn split_measured(text: &str, limit: MessageLimit, measure: &dyn Fn(&str) -> usize) -> Vec<MessagePart> {
    let (mut parts, mut at, mut open) = (Vec::new(), 0, None::<OpenFence>);
    while at < text.len() {
        let (part, left_open) = next_part(&text[at..], open.as_ref(), limit, measure);
        let end = at + part.of.end;
        parts.push(MessagePart { text: part.text, of: at..end });
        (at, open) = (end, left_open);
    }
    parts
}

/// Returns the first message of the rest, and the code block that it was cut in.
fn next_part(
    rest: &str,
    open: Option<&OpenFence>,
    limit: MessageLimit,
    measure: &dyn Fn(&str) -> usize,
) -> (MessagePart, Option<OpenFence>) {
    let head = open.map(OpenFence::opening_line).unwrap_or_default();
    let mut room = limit.most.saturating_sub(limit.text_length(&head)).max(1);
    for tries in 0.. {
        let fits = limit.fitting_bytes(rest, room);
        let end = if fits == rest.len() { fits } else { find_cut(&rest[..fits], open) };
        let text = match open {
            Some(fence) => head.clone() + &fence.continue_text(&rest[..end]),
            None => rest[..end].to_owned(),
        };
        let left = OpenFence::left_open(&text);
        let tail = left.as_ref().map(|fence| fence.closing_line(&text)).unwrap_or_default();
        let text = text + &tail;
        let (length, plain_length) = (measure(&text), limit.text_length(&text));
        if length <= limit.most || room == 1 {
            // A fence that would take too much room is not opened again.
            let again = left.filter(|fence| limit.text_length(&fence.opening_line()) <= limit.most / 4);
            return (MessagePart { text, of: 0..end }, again);
        }
        // The closing line needs room, too; and of a text that grows when it is converted, less is taken.
        let over = length - limit.most;
        let less = if tries < 8 { (over * plain_length).div_ceil(length).max(1) } else { room / 2 };
        room = limit.text_length(&rest[..end]).saturating_sub(less).max(1);
    }
    unreachable!("the room shrinks to nothing")
}

/// Returns where to cut a text: as late as possible, at the best boundary.
fn find_cut(window: &str, open: Option<&OpenFence>) -> usize {
    // Not so early that the message is almost empty.
    let least = window.len() / 4;
    let blocks = code_block_ranges(window, open);
    let in_block = |at: usize| blocks.iter().any(|block| block.start < at && at < block.end);
    // An empty block looks odd: no cut after its first line or before its last one.
    let odd = |at: usize| blocks.iter().any(|block| is_edge(&window[block.clone()], at.wrapping_sub(block.start)));
    let lines = || window.match_indices('\n').map(|(at, _)| at + 1).filter(|at| *at > least).rev();
    let is_blank = |at: usize| window[..at - 1].trim_end_matches([' ', '\t', '\r', '>']).ends_with('\n');
    let paragraph = lines().find(|at| is_blank(*at) && !in_block(*at));
    // A block moves completely to the next message if enough text is left for this one.
    let whole = || lines().find(|at| !in_block(*at) && *at > window.len() / 2);
    let line = || lines().find(|at| !odd(*at)).or_else(|| lines().next());
    let word = || window.rfind([' ', '\t']).map(|at| at + 1).filter(|at| *at > least);
    paragraph.or_else(whole).or_else(line).or_else(word).unwrap_or(window.len())
}

/// Returns the code blocks of a text; the first may already be open when the text begins.
fn code_block_ranges(window: &str, open: Option<&OpenFence>) -> Vec<Range<usize>> {
    let inside = open.map_or(0, |fence| fence.end_in(window));
    let found =
        fence::fenced_block_ranges(&window[inside..]).into_iter().map(|block| block.start + inside..block.end + inside);
    (inside > 0).then_some(0..inside).into_iter().chain(found).collect()
}

/// Tells whether a position is after the first line of a block, or before the last one.
fn is_edge(block: &str, at: usize) -> bool {
    let first = block.find('\n').map(|at| at + 1);
    let last = block.trim_end_matches(['\r', '\n']).rfind('\n').map(|at| at + 1);
    first == Some(at) || last == Some(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn characters_limit(most: usize) -> MessageLimit {
        MessageLimit { most, unit: LengthUnit::Characters }
    }

    #[test]
    fn what_fits_is_one_message() {
        assert_eq!(split_message("hello", MessageLimit::DISCORD), ["hello"]);
        assert_eq!(split_message(&"x".repeat(2000), MessageLimit::DISCORD).len(), 1);
        assert!(
            split_message("", MessageLimit::DISCORD).is_empty()
                && split_message(" \n\n", MessageLimit::DISCORD).is_empty()
        );
        assert_eq!(
            split_message("```rust\nlet x;", MessageLimit::DISCORD),
            ["```rust\nlet x;\n```"],
            "what is open is closed"
        );
    }

    #[test]
    fn one_more_than_fits_is_two() {
        for limit in [MessageLimit::GITHUB, MessageLimit::SLACK, MessageLimit::DISCORD, MessageLimit::TELEGRAM] {
            assert_eq!(split_message(&"x".repeat(limit.most), limit).len(), 1);
            assert_eq!(split_message(&"x".repeat(limit.most + 1), limit).len(), 2);
        }
        assert_eq!(split_message(&"😀".repeat(2049), MessageLimit::TELEGRAM).len(), 2, "two units each");
        assert_eq!(split_message(&"😀".repeat(2000), MessageLimit::DISCORD).len(), 1);
    }

    #[test]
    fn paragraphs_then_lines_then_words_then_characters() {
        assert_eq!(
            split_message("one two\n\nthree four\nfive", characters_limit(20)),
            ["one two\n\n", "three four\nfive"]
        );
        assert_eq!(split_message("one two three\nfour five", characters_limit(20)), ["one two three\n", "four five"]);
        assert_eq!(split_message("one two three four five", characters_limit(20)), ["one two three four ", "five"]);
        assert_eq!(split_message("0123456789abcdefghijk", characters_limit(20)), ["0123456789abcdefghij", "k"]);
    }

    #[test]
    fn a_code_block_is_closed_and_opened_again_with_its_language() {
        let text = "Look:\n\n```rust title\nlet a = 1;\nlet b = 2;\nlet c = 3;\n```\n\nDone.";
        assert_eq!(
            split_message(text, characters_limit(40)),
            ["Look:\n\n```rust title\nlet a = 1;\n```", "```rust\nlet b = 2;\nlet c = 3;\n```\n\nDone."]
        );
        let listed = "1. Do\n\n   ~~~~sh\n   one\n   two\n   three\n   ~~~~\n2. Then\n";
        assert_eq!(
            split_message(listed, characters_limit(36)),
            ["1. Do\n\n   ~~~~sh\n   one\n   ~~~~", "~~~~sh\ntwo\nthree\n~~~~\n", "2. Then\n"]
        );
        let quoted = "> ```\n> one one one\n> two two two\n> ```\n";
        assert_eq!(
            split_message(quoted, characters_limit(36)),
            ["> ```\n> one one one\n> ```", "> ```\n> two two two\n> ```\n"]
        );
    }

    #[test]
    fn a_block_goes_whole_into_the_next_message_if_it_can() {
        let text = format!("{}\n```\nshort\n```\n", "word ".repeat(5));
        assert_eq!(
            split_message(&text, characters_limit(36)),
            [format!("{}\n", "word ".repeat(5)), "```\nshort\n```\n".to_owned()]
        );
    }

    #[test]
    fn what_ends_a_line_stays_together() {
        for most in 2..12 {
            for part in split_parts(&"ab\r\n".repeat(20), characters_limit(most)) {
                assert!(!part.text.ends_with('\r') && !part.text.starts_with('\n'), "{most}: {part:?}");
            }
        }
    }

    /// Tells whether text after a message would be part of its code.
    fn leaves_open(message: &str) -> bool {
        let text = format!("{message}\n\nBEHIND");
        let layers = crate::markdown::MarkdownLayers::from_text(&text);
        layers.is_code(text.len() - 1)
    }

    fn count_fences(message: &str) -> usize {
        message.lines().filter(|line| line.trim_start_matches([' ', '>']).starts_with("```")).count()
    }

    fn check_split(text: &str, limit: MessageLimit) -> Result<(), TestCaseError> {
        let parts = split_parts(text, limit);
        let mut at = 0;
        for part in &parts {
            prop_assert_eq!(part.of.start, at, "no gap");
            prop_assert!(part.of.end > at);
            prop_assert!(limit.text_length(&part.text) <= limit.most, "{:?}", part);
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
            check_split(&text, MessageLimit { most, unit: if utf16 { LengthUnit::Utf16 } else { LengthUnit::Characters } })?;
        }

        #[test]
        fn any_text_at_all(text in any::<String>(), most in 8usize..40) {
            check_split(&text, characters_limit(most))?;
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
            check_split(&text, characters_limit(most))?;
            for part in split_parts(&text, characters_limit(most)) {
                prop_assert_eq!(count_fences(&part.text) % 2, 0, "{:?}", part.text);
                // Code stays code, and other text does not become code.
                let layers = crate::markdown::MarkdownLayers::from_text(&part.text);
                for (at, line) in part.text.match_indices("();") {
                    prop_assert!(layers.is_code(at), "{line} in {:?}", part.text);
                }
            }
        }
    }
}
