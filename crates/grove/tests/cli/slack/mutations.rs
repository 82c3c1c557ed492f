//! Mutated, repeated and reordered events through the real webhook.

use std::collections::BTreeMap;

use grove_testkit::slack::{SIGNING_SECRET, sign_request};
use grove_testkit::{SeededRandom, is_long_run, on_sqlite};
use serde_json::{Value, json};

use super::{EventInput, SlackTest};

/// Changes a payload so that it is no message to the bot any more.
fn spoil(payload: &Value, dice: &mut SeededRandom) -> Value {
    let mut payload = payload.clone();
    let event = &mut payload["event"];
    match dice.next_below(9) {
        0 => event["user"] = json!("UMALLORY"),
        1 => event["bot_id"] = json!("B9"),
        2 => event["subtype"] = json!("message_deleted"),
        3 => event["user"] = json!({ "id": "UALICE" }),
        4 => event["channel"] = json!("C1:../x"),
        5 => event["ts"] = json!("not a time"),
        6 => event["type"] = json!("reaction_added"),
        7 => payload["type"] = json!(["event_callback"]),
        _ => payload["event"] = json!("message"),
    }
    payload
}

on_sqlite! {
    fn each_event_has_one_effect_and_nothing_else_has_any(store: TestStore) {
        let count = if is_long_run() { 3_000 } else { 300 };
        let test = SlackTest::open(store, EventInput::Webhook);
        let (slack, mut dice) = (&test.slack, SeededRandom(41));
        // Real messages, whose events are sent by this test alone.
        slack.use_webhook("http://127.0.0.1:9/");
        let threads: Vec<String> = (0..20).map(|_| slack.say("alice", "C1", "@grove !help")).collect();
        let events: Vec<Value> = slack.sent_events().into_iter().map(|event| event.payload).collect();
        assert_eq!(events.len(), 40);
        let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
        let now = jiff::Timestamp::now().as_second();
        for number in 0..count {
            let event = &events[usize::try_from(dice.next_below(40)).unwrap()];
            let (mut body, mut secret, mut age) = (event.to_string().into_bytes(), SIGNING_SECRET, 0);
            match dice.next_below(6) {
                0 => secret = "wrong",
                1 => age = 301 + i64::try_from(dice.next_below(1_000)).unwrap(),
                2 | 3 => {
                    let mut spoiled = spoil(event, &mut dice);
                    spoiled["event_id"] = json!(format!("EvSpoiled{number}"));
                    body = spoiled.to_string().into_bytes();
                }
                _ => {}
            }
            let signed = sign_request(secret, now - age, &body);
            if dice.one_in(10) {
                // Changed on the way.
                let at = usize::try_from(dice.next_below(body.len() as u64)).unwrap();
                body[at] ^= 1;
            }
            let mut headers: Vec<(&str, &[u8])> = signed.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
            headers.push(("content-type", b"application/json"));
            let (response, _) = test.server.request_with_bytes("POST", "/webhooks/slack", &headers, &body);
            assert!([202, 400, 401].contains(&response.status), "{response:?}");
            *statuses.entry(response.status).or_default() += 1;
        }
        // At last every event arrives as it is.
        slack.use_webhook(&format!("{}/webhooks/slack", test.server.address));
        events.iter().for_each(|event| assert_eq!(slack.resend_event(event, 3), 202));
        threads.iter().for_each(|thread| drop(test.wait_for_replies("C1", thread, 1)));
        assert_eq!(slack.all_bot_messages().len(), threads.len());
        let log = test.server.take_log_lines();
        assert!(!log.iter().any(|line| line.contains("panicked")), "{log:#?}");
        println!("{count} requests: {statuses:?}; {} messages, one answer each", threads.len());
    }
}
