//! Telegram's formats, against the parser of the fake, and updates by the thousand.

use std::collections::BTreeMap;

use grove_platforms::mention::BotName;
use grove_platforms::telegram::inbound::classify::{BotIdentity, Relevance, classify_update};
use grove_platforms::telegram::inbound::wire::Update;
use grove_platforms::telegram::outbound::markdown::to_markdown_v2;
use grove_testkit::SeededRandom;
use grove_testkit::telegram::{BOT_ID, BOT_NAME, parse_markdown_v2};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The letters and digits of a text, in order.
fn words_of(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_lowercase()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn telegram_accepts_every_converted_text(
        text in "(\n|\n\n|  |    |- |1\\. |> |# |```|```sh\n|~~~|`|``|\\*|\\*\\*|_|__|~~|\\[|\\]|\\]\\(https://x\\.dev/a\\)|!|\\||\\||---|<b>|<!--|\\\\|[a-z ]{1,6}|[.!+=(){}#>]|😀|é){0,40}"
    ) {
        let converted = to_markdown_v2(&text);
        let parsed = parse_markdown_v2(&converted);
        prop_assert!(parsed.is_ok(), "{text:?} -> {converted:?}: {parsed:?}");
    }

    #[test]
    fn no_word_is_lost(text in "([a-z]{1,8}|[ .,!?()-]|\\*\\*[a-z]{1,5}\\*\\*|_[a-z]{1,5}_|`[a-z]{1,5}`|\n|\n\n|\n- |\n> ){0,40}") {
        let parsed = parse_markdown_v2(&to_markdown_v2(&text)).map_err(TestCaseError::fail)?;
        prop_assert_eq!(words_of(&parsed.text), words_of(&text));
    }
}

fn grove_bot() -> BotIdentity {
    BotIdentity { id: BOT_ID, name: BotName::parse(BOT_NAME).unwrap() }
}

/// A message with everything that a message can have.
fn rich_message(number: i64) -> Value {
    json!({ "update_id": number, "message": {
        "message_id": number, "date": 1, "message_thread_id": 4, "is_topic_message": true,
        "from": { "id": 5, "is_bot": false, "first_name": "A", "username": "alice", "language_code": "en" },
        "chat": { "id": -1_009, "type": "supergroup", "title": "t", "is_forum": true },
        "text": format!("/run@{BOT_NAME} 😀 code link {number}"),
        "entities": [{ "type": "bot_command", "offset": 0, "length": 14 }, { "type": "code", "offset": 18, "length": 4 },
            { "type": "text_link", "offset": 23, "length": 4, "url": "https://x.dev" }],
        "reply_to_message": { "message_id": 2, "date": 1, "chat": { "id": -1_009, "type": "supergroup" },
            "from": { "id": BOT_ID, "is_bot": true, "first_name": "B", "username": BOT_NAME }, "text": "before" },
        "document": { "file_id": "f", "file_unique_id": "u", "file_name": "n.txt", "mime_type": "text/plain", "file_size": 3 },
        "link_preview_options": { "is_disabled": true }, "a_new_field": [1, { "x": null }] } })
}

fn bend_value(dice: &mut SeededRandom, value: &mut Value) {
    let pick = |dice: &mut SeededRandom, from: usize| usize::try_from(dice.next_below(from as u64)).unwrap();
    match value {
        Value::Object(fields) if !fields.is_empty() && !dice.one_in(8) => {
            let at = pick(dice, fields.len());
            let name = fields.keys().nth(at).unwrap().clone();
            if dice.one_in(4) {
                fields.remove(&name);
            } else {
                bend_value(dice, fields.get_mut(&name).unwrap());
            }
        }
        Value::Array(items) if !items.is_empty() && !dice.one_in(8) => {
            let at = pick(dice, items.len());
            bend_value(dice, &mut items[at]);
        }
        value => {
            let others = [
                json!(null),
                json!(0),
                json!(-1),
                json!(i64::MIN),
                json!(u64::MAX),
                json!(3_000_000_000_u64),
                json!("\u{0}\u{202e}@grove_bot"),
                json!("private"),
                json!(true),
                json!({}),
                json!([]),
                json!(1e300),
            ];
            *value = others[pick(dice, others.len())].clone();
        }
    }
}

#[test]
fn ten_thousand_bent_updates_are_each_read_or_refused() {
    let (mut dice, mut outcomes) = (SeededRandom(11), BTreeMap::<&str, usize>::new());
    for number in 0..10_000 {
        let mut update = rich_message(number);
        let untouched = dice.one_in(10);
        if !untouched {
            (0..=dice.next_below(4)).for_each(|_| bend_value(&mut dice, &mut update));
        }
        let mut body = update.to_string().into_bytes();
        if !untouched && dice.one_in(3) {
            let at = usize::try_from(dice.next_below(body.len() as u64)).unwrap();
            body[at] = u8::try_from(dice.next_below(256)).unwrap();
            body.truncate(body.len().saturating_sub(usize::try_from(dice.next_below(3)).unwrap()));
        }
        let outcome = match Update::parse(&body) {
            Err(_) => "refused",
            Ok(update) => match classify_update(&update, &grove_bot()) {
                Relevance::Message(message) => {
                    // Accepted: a person wrote it, in a chat with people.
                    assert!(!message.author.is_bot && message.author.id != BOT_ID, "{message:?}");
                    assert!(["private", "group", "supergroup"].contains(&message.message.chat.kind.as_str()));
                    assert!(message.message.sender_chat.is_none() && message.message.via_bot.is_none());
                    "message"
                }
                Relevance::Ignored(_) => "ignored",
                _ => "other",
            },
        };
        assert!(!untouched || outcome == "message");
        *outcomes.entry(outcome).or_default() += 1;
    }
    println!("{outcomes:?}");
    assert!(outcomes["message"] > 1_000 && outcomes["refused"] > 1_000 && outcomes["ignored"] > 100, "{outcomes:?}");
}
