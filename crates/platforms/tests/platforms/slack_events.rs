//! Ten thousand mutated events of Slack: none is taken for a message to the bot that is none, and none panics.

use grove_platforms::slack::{BotAccount, Relevance, SigningSecret, SlackPayload, classify_event, parse_payload};
use grove_testkit::SeededRandom;
use grove_testkit::slack::{SIGNING_SECRET, sign_request};
use serde_json::{Value, json};

const EVENT_COUNT: usize = 10_000;

fn base_events() -> Vec<Value> {
    let message = |kind: &str, channel: &str, text: &str, more: Value| {
        let mut event =
            json!({ "type": kind, "user": "UALICE", "channel": channel, "ts": "1700000000.000100", "text": text });
        for (name, value) in more.as_object().unwrap() {
            event[name] = value.clone();
        }
        json!({ "type": "event_callback", "event_id": "Ev1", "team_id": "T1", "event": event })
    };
    vec![
        message("app_mention", "C1", "<@UBOT> fix it", json!({})),
        message("message", "C1", "<@UBOT> fix it", json!({ "thread_ts": "1600000000.000100" })),
        message("message", "C1", "and then?", json!({ "thread_ts": "1600000000.000100" })),
        message("message", "DALICE", "fix it", json!({ "channel_type": "im" })),
        message("message", "C1", "see", json!({ "subtype": "file_share", "files": [{ "name": "a" }] })),
    ]
}

/// Values that a field may get: right ones, wrong ones, ones of another type.
fn some_value(dice: &mut SeededRandom) -> Value {
    let values = [
        json!(null),
        json!("UBOT"),
        json!("UALICE"),
        json!("B1"),
        json!("C1"),
        json!("D1"),
        json!("im"),
        json!("1700000000.000100"),
        json!("message_changed"),
        json!("thread_broadcast"),
        json!("<@UBOT> x"),
        json!("`<@UBOT>` x"),
        json!("<@UBOT"),
        json!("\u{0}\u{202e}<@<>|>"),
        json!(""),
        json!(7),
        json!(true),
        json!([]),
        json!({ "id": "UALICE" }),
        json!("message"),
        json!("app_mention"),
    ];
    values[usize::try_from(dice.next_below(values.len() as u64)).unwrap()].clone()
}

fn mutate(payload: &mut Value, dice: &mut SeededRandom) {
    let fields =
        ["type", "user", "channel", "ts", "thread_ts", "text", "subtype", "bot_id", "hidden", "channel_type", "files"];
    for _ in 0..=dice.next_below(3) {
        let field = fields[usize::try_from(dice.next_below(fields.len() as u64)).unwrap()];
        let target = if dice.one_in(6) { &mut *payload } else { &mut payload["event"] };
        let Some(target) = target.as_object_mut() else { return };
        if dice.one_in(4) {
            target.remove(field);
        } else {
            target.insert(field.to_owned(), some_value(dice));
        }
    }
}

/// What must hold for a message to the bot, written down independently of the code that decides.
fn may_be_accepted(payload: &Value, relevance: &Relevance) -> bool {
    let event = &payload["event"];
    let is_text = |value: &Value, ok: &dyn Fn(&str) -> bool| value.as_str().is_some_and(ok);
    let is_ts =
        |value: &Value| is_text(value, &|ts| ts.len() > 2 && ts.chars().all(|c| c.is_ascii_digit() || c == '.'));
    let is_id = |value: &Value| is_text(value, &|id| !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric()));
    let written = event["subtype"].as_str().is_none_or(|subtype| ["file_share", "thread_broadcast"].contains(&subtype));
    let directed = match relevance {
        Relevance::Asked => {
            event["type"] == "app_mention"
                || is_text(&event["text"], &|text| text.contains("<@UBOT>") && !text.contains('`'))
                || event["channel_type"] == "im"
                || is_text(&event["channel"], &|channel| channel.starts_with('D'))
        }
        Relevance::Overheard => is_ts(&event["thread_ts"]) && event["thread_ts"] != event["ts"],
        Relevance::Ignored(_) => true,
    };
    payload["type"] == "event_callback"
        && (event["type"] == "app_mention" || event["type"] == "message")
        && is_id(&event["user"])
        && event["user"] != "UBOT"
        && event["bot_id"].is_null()
        && event["hidden"] != true
        && written
        && is_id(&event["channel"])
        && is_ts(&event["ts"])
        && directed
}

#[test]
fn no_mutated_event_is_taken_for_a_message_to_the_bot() {
    let (mut dice, us) = (SeededRandom(7), BotAccount { user: "UBOT".to_owned(), name: "grove".to_owned() });
    let (bases, mut accepted, mut malformed) = (base_events(), 0, 0);
    for number in 0..EVENT_COUNT {
        let mut payload = bases[number % bases.len()].clone();
        mutate(&mut payload, &mut dice);
        let event = match parse_payload(&payload) {
            Ok(SlackPayload::Message { event, .. }) => event,
            Ok(_) => continue,
            Err(_) => {
                malformed += 1;
                continue;
            }
        };
        let relevance = classify_event(&event, &us);
        if !matches!(relevance, Relevance::Ignored(_)) {
            accepted += 1;
            assert!(may_be_accepted(&payload, &relevance), "{relevance:?} {payload}");
        }
    }
    assert!(accepted > EVENT_COUNT / 20 && malformed > EVENT_COUNT / 20, "{accepted} {malformed}");
    println!("{EVENT_COUNT} events: {accepted} accepted, {malformed} malformed, 0 accepted wrongly");
}

#[test]
fn no_changed_request_is_taken_for_slacks() {
    let (mut dice, secret) = (SeededRandom(11), SigningSecret::new(SIGNING_SECRET).unwrap());
    let now = 1_700_000_000;
    let body = base_events()[0].to_string().into_bytes();
    let [(_, timestamp), (_, signature)] = sign_request(SIGNING_SECRET, now, &body);
    assert!(secret.verifies(&timestamp, &signature, &body, now));
    for _ in 0..EVENT_COUNT {
        let (mut body, mut timestamp, mut signature, mut at) =
            (body.clone(), timestamp.clone(), signature.clone(), now);
        let change = |bytes: &mut Vec<u8>, dice: &mut SeededRandom| {
            let at = usize::try_from(dice.next_below(bytes.len() as u64)).unwrap();
            bytes[at] ^= 1 << dice.next_below(7);
        };
        match dice.next_below(5) {
            0 => change(&mut body, &mut dice),
            1 => timestamp = (now + 1 + i64::try_from(dice.next_below(200)).unwrap()).to_string(),
            2 => {
                let mut bytes = signature.into_bytes();
                change(&mut bytes, &mut dice);
                signature = String::from_utf8_lossy(&bytes).into_owned();
            }
            3 => at += 301 + i64::try_from(dice.next_below(100_000)).unwrap(),
            _ => body.truncate(usize::try_from(dice.next_below(body.len() as u64)).unwrap()),
        }
        let is_same = signature.starts_with("v0=")
            && sign_request(SIGNING_SECRET, now, &body)[1].1.eq_ignore_ascii_case(&signature)
            && timestamp == now.to_string()
            && at == now;
        assert_eq!(secret.verifies(&timestamp, &signature, &body, at), is_same, "{timestamp} {signature} {at}");
    }
}
