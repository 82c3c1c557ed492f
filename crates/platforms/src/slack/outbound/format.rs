//! How a text is shown on Slack: in how many messages, or as a file; with which buttons.

use serde_json::{Value, json};

use crate::choices::ChoiceButton;
use crate::split::{LengthUnit, MessageLimit, split_message};

/// An answer of more messages than this becomes a file.
pub(crate) const MAX_MESSAGES: usize = 4;
/// The maximum length of one block of text.
const SECTION_LIMIT: MessageLimit = MessageLimit { most: 3_000, unit: LengthUnit::Characters };
/// The number of characters of an answer that is a file which are also shown as a message.
const BEGINNING_LIMIT: MessageLimit = MessageLimit { most: 3_000, unit: LengthUnit::Characters };
/// A part is split again at most so often because of its escaped characters.
const MAX_SPLIT_ROUNDS: usize = 32;
/// The maximum length of a button's label.
const MAX_LABEL_CHARACTERS: usize = 75;

/// Escapes the characters that mean something to Slack; without them, no text can mention a person or a group.
pub(crate) fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Splits a text into escaped messages, each within the limit.
pub(crate) fn split_escaped(text: &str, limit: MessageLimit) -> Vec<String> {
    split_message(text, limit).iter().flat_map(|part| fit_escaped(part, limit, MAX_SPLIT_ROUNDS)).collect()
}

/// Escapes a part; if that makes it too long, the part is split again. It closes its own code blocks, so that it
/// can be split by itself.
fn fit_escaped(part: &str, limit: MessageLimit, rounds: usize) -> Vec<String> {
    let escaped = escape_text(part);
    let (plain_length, length) = (part.chars().count(), escaped.chars().count());
    if length <= limit.most || plain_length < 2 || rounds == 0 {
        return vec![escaped];
    }
    let most = (plain_length * limit.most / length).clamp(1, plain_length - 1);
    let smaller = split_message(part, MessageLimit { most, ..limit });
    smaller.iter().flat_map(|part| fit_escaped(part, limit, rounds - 1)).collect()
}

/// Returns the beginning of a text that is uploaded as a file.
pub(crate) fn beginning_of(text: &str) -> String {
    let beginning = split_escaped(text, BEGINNING_LIMIT).into_iter().next().unwrap_or_default();
    format!("{}\n\n_The whole answer is in the file below._", beginning.trim_end())
}

/// Returns the blocks of a message with buttons; `None` if there are no buttons.
pub(crate) fn button_blocks(text: &str, buttons: &[ChoiceButton]) -> Option<Value> {
    if buttons.is_empty() {
        return None;
    }
    let section = |text: String| json!({ "type": "section", "text": { "type": "mrkdwn", "text": text } });
    let sections = split_escaped(text, SECTION_LIMIT).into_iter().map(section);
    let button = |(number, button): (usize, &ChoiceButton)| {
        let label: String = button.label.chars().take(MAX_LABEL_CHARACTERS).collect();
        let text = json!({ "type": "plain_text", "text": label });
        json!({ "type": "button", "action_id": format!("grove_choice_{number}"), "text": text, "value": button.data })
    };
    let elements: Vec<Value> = buttons.iter().enumerate().map(button).collect();
    let actions = json!({ "type": "actions", "elements": elements });
    Some(sections.chain([actions]).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_means_something_to_slack_is_escaped() {
        assert_eq!(
            split_escaped("a <!everyone> & <@U1>", MessageLimit::SLACK),
            ["a &lt;!everyone&gt; &amp; &lt;@U1&gt;"]
        );
        assert_eq!(split_escaped(&"x".repeat(12_000), MessageLimit::SLACK).len(), 1);
        assert_eq!(split_escaped(&"x".repeat(12_001), MessageLimit::SLACK).len(), 2);
        let escaped = split_escaped(&"<".repeat(12_000), MessageLimit::SLACK);
        assert!(escaped.len() == 4 && escaped.iter().all(|part| part.len() == 12_000), "{}", escaped.len());
    }

    #[test]
    fn a_code_block_is_closed_and_opened_again() {
        let text = format!("Look:\n```rust\n{}```\nDone.", "let x: Vec<u8> = a & b;\n".repeat(700));
        let parts = split_escaped(&text, MessageLimit::SLACK);
        assert!(parts.len() > 1);
        for part in &parts {
            assert!(part.chars().count() <= 12_000 && part.matches("```").count() % 2 == 0, "{part}");
        }
        assert!(parts[1].starts_with("```rust\nlet x: Vec&lt;u8&gt;"));
    }

    #[test]
    fn buttons_stand_below_the_text() {
        let button = ChoiceButton { label: "app".to_owned(), data: "id:0".to_owned() };
        let blocks = button_blocks("Which <one>?", &[button]).unwrap();
        assert_eq!(blocks[0]["text"]["text"], "Which &lt;one&gt;?");
        assert_eq!(blocks[1]["elements"][0]["value"], "id:0");
        assert_eq!(button_blocks("text", &[]), None);
    }

    proptest! {
        #[test]
        fn no_message_is_too_long_and_nothing_is_lost(text in "([<>& a\n]|```\n|é){0,300}", most in 12usize..80) {
            let limit = MessageLimit { most, unit: LengthUnit::Characters };
            let parts = split_escaped(&text, limit);
            let all = parts.concat();
            for part in &parts {
                prop_assert!(part.chars().count() <= most, "{part:?}");
                prop_assert!(!part.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "").contains(['&', '<', '>']));
            }
            for (raw, escaped) in [('<', "&lt;"), ('>', "&gt;"), ('é', "é")] {
                prop_assert!(all.matches(escaped).count() >= text.matches(raw).count());
            }
        }
    }
}
