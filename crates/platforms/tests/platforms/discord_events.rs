//! Ten thousand events of Discord, changed at random: none panics, and none is taken that must not be.

use grove_platforms::discord::api::Snowflake;
use grove_platforms::discord::inbound::classify::{MessagePlace, Relevance, classify_message};
use grove_platforms::discord::inbound::interaction::Interaction;
use grove_platforms::discord::inbound::stored::{INTERACTION_KIND, MESSAGE_KIND, StoredEvent};
use grove_testkit::SeededRandom;
use serde_json::{Value, json};

const BOT: u64 = 42;

fn message_event(dice: &mut SeededRandom) -> Value {
    let contents = ["<@42> fix it", "fix it", "`<@42>` fix it", "<@!42>", "", "<@421> no", "```\n<@42>\n```"];
    let content = contents[usize::try_from(dice.next_below(7)).unwrap()];
    let author = [4, BOT, 5][usize::try_from(dice.next_below(3)).unwrap()].to_string();
    let guild = if dice.one_in(3) { Value::Null } else { json!("9") };
    let kind = if dice.one_in(4) { 7 } else { 0 };
    let parent = if dice.one_in(3) { json!("8") } else { Value::Null };
    json!({
        "message": {
            "id": dice.next_below(1 << 30).to_string(), "channel_id": "7", "guild_id": guild, "content": content,
            "author": { "id": author, "username": "alice", "bot": dice.one_in(4) }, "type": kind,
            "attachments": [{ "url": "https://cdn.discordapp.com/x", "size": 5 }],
        },
        "own_thread_of": parent,
    })
}

fn interaction_event(dice: &mut SeededRandom) -> Value {
    json!({
        "id": "1", "application_id": "2", "type": 2 + dice.next_below(2), "channel_id": "3", "channel": { "id": "3", "type": 11, "parent_id": "9" },
        "member": { "user": { "id": "4", "username": "alice" } }, "message": { "id": "8" },
        "data": { "custom_id": "a:1", "name": "worktree", "options": [{ "name": "remove", "type": 1, "options": [{ "name": "force", "type": 5, "value": true }] }] },
    })
}

/// Changes one value somewhere.
fn mutate(value: &mut Value, dice: &mut SeededRandom) {
    let replacement = match dice.next_below(8) {
        0 => Value::Null,
        1 => json!({}),
        2 => json!([]),
        3 => json!("\u{0}\u{202e}<@42>"),
        4 => json!(-1),
        5 => json!(u64::MAX),
        6 => json!(true),
        _ => json!(String::from_utf8_lossy(&dice.random_bytes())),
    };
    match value {
        Value::Object(fields) if !fields.is_empty() && !dice.one_in(8) => {
            let at = usize::try_from(dice.next_below(fields.len() as u64)).unwrap();
            if dice.one_in(4) {
                let key = fields.keys().nth(at).unwrap().clone();
                fields.remove(&key);
            } else {
                mutate(fields.values_mut().nth(at).unwrap(), dice);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = usize::try_from(dice.next_below(items.len() as u64)).unwrap();
            mutate(&mut items[at], dice);
        }
        other => *other = replacement,
    }
}

#[test]
fn changed_events_are_never_taken_wrongly() {
    let mut dice = SeededRandom(3);
    let (mut asked, mut ignored, mut nonsense) = (0, 0, 0);
    for _ in 0..10_000 {
        let is_message = !dice.one_in(3);
        let (kind, mut event) = if is_message {
            (MESSAGE_KIND, message_event(&mut dice))
        } else {
            (INTERACTION_KIND, interaction_event(&mut dice))
        };
        for _ in 0..dice.next_below(4) {
            mutate(&mut event, &mut dice);
        }
        let mut text = event.to_string();
        if dice.one_in(10) {
            let end = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            text.truncate(end);
        }
        match StoredEvent::parse(kind, &text) {
            None => nonsense += 1,
            Some(StoredEvent::Message { message, place }) => match classify_message(&message, Snowflake(BOT), place) {
                Relevance::Ignored(_) => ignored += 1,
                Relevance::Asked { text } => {
                    asked += 1;
                    let from = &event["message"];
                    assert!(!text.trim().is_empty());
                    assert_ne!(from["author"]["id"], BOT.to_string(), "{event}");
                    assert_ne!(from["author"]["bot"], true, "{event}");
                    let mentions = from["content"]
                        .as_str()
                        .is_some_and(|content| content.contains("<@42>") || content.contains("<@!42>"));
                    assert!(mentions || place != MessagePlace::Elsewhere, "{event}");
                }
            },
            Some(StoredEvent::Interaction(interaction)) => {
                asked += 1;
                assert_eq!(Interaction::parse(&event), Some(interaction));
            }
            Some(StoredEvent::CatchUp(_)) => panic!("{event}"),
        }
    }
    assert!(asked > 500 && ignored > 500 && nonsense > 500, "{asked} {ignored} {nonsense}");
    println!("10000 events: {asked} asked, {ignored} ignored, {nonsense} nonsense");
}
