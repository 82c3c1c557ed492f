//! Updates that come late, twice, in another order or broken: each has one effect.

use std::time::Duration;

use grove_testkit::telegram::BotFault;
use grove_testkit::{SeededRandom, TestEngine, TestStore, both_engines, is_long_run, wait_for};
use serde_json::{Value, json};

use super::TelegramTest;

fn run_sql(store_url: &str, statement: &str) {
    let database = store_url.trim_start_matches("sqlite://");
    let script = format!("import sqlite3; c = sqlite3.connect({database:?}); c.execute({statement:?}); c.commit()");
    assert!(std::process::Command::new("python3").args(["-c", &script]).status().unwrap().success());
}

#[test]
fn the_offset_moves_only_once_the_updates_are_stored() {
    let store = TestStore::new(TestEngine::Sqlite);
    let url = store.url.clone();
    let test = TelegramTest::with_settings(store, "");
    let telegram = &test.telegram;
    let chat = telegram.private_chat("alice");
    telegram.say("alice", chat, "echo zero");
    test.wait_for_replies(chat, 2);
    run_sql(&url, "ALTER TABLE grove_events RENAME TO grove_events_away");
    telegram.say("alice", chat, "echo ran >> count; cat count");
    let polls = || telegram.count_requests("getUpdates");
    let before = polls();
    wait_for(|| polls() >= before + 3);
    assert_eq!(telegram.pending_updates().len(), 1, "Telegram still has the update");
    run_sql(&url, "ALTER TABLE grove_events_away RENAME TO grove_events");
    assert_eq!(test.wait_for_replies(chat, 3)[2], "ran");
}

both_engines! {
    fn what_was_stored_before_a_kill_runs_once(store: TestStore) {
        let mut test = TelegramTest::with_settings(store, "");
        let chat = test.telegram.private_chat("alice");
        test.telegram.say("alice", chat, "echo zero");
        test.wait_for_replies(chat, 2);
        // The updates are delivered, but the server is killed before they are confirmed: the request that
        // would confirm them never arrives.
        test.telegram.fail_next("getUpdates", 1, BotFault::HoldBefore);
        test.telegram.say("alice", chat, "echo ran >> count; cat count");
        assert!(test.telegram.holds_soon(Duration::from_secs(20)));
        test.server.kill();
        test.telegram.let_go();
        assert_eq!(test.telegram.pending_updates().len(), 1, "it comes again");
        test.restart_server();
        test.at_rest();
        let said = test.replies(chat);
        let answers = said[2..].iter().filter(|text| *text == "ran" || text.contains("was interrupted")).count();
        assert_eq!((answers, said.len()), (1, 3), "{said:?}");
    }
}

#[test]
fn a_new_server_goes_on_behind_the_last_update() {
    let mut test = TelegramTest::open();
    let chat = test.telegram.private_chat("alice");
    test.telegram.say("alice", chat, "echo one");
    test.wait_for_replies(chat, 2);
    test.server.terminate();
    // What comes meanwhile waits at Telegram, in order.
    for number in 0..120 {
        test.telegram.say("alice", chat, if number % 40 == 0 { "echo between" } else { "true" });
    }
    test.restart_server();
    test.at_rest();
    assert_eq!(test.replies(chat).iter().filter(|text| *text == "between").count(), 3);
    let asked = test.telegram.received_requests();
    let offsets: Vec<i64> = asked.iter().filter_map(|asked| asked.body["offset"].as_i64()).collect();
    assert!(offsets.is_sorted() && offsets.contains(&501) && offsets.contains(&601), "{offsets:?}");
}

/// One update, changed at random: other values, missing fields, other types.
fn bend(dice: &mut SeededRandom, value: &mut Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let at = usize::try_from(dice.next_below(fields.len() as u64)).expect("few");
            let name = fields.keys().nth(at).expect("a field").clone();
            match dice.next_below(4) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert(name, json!([null, "x", { "y": -1 }]))),
                _ => bend(dice, fields.get_mut(&name).expect("a field")),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = usize::try_from(dice.next_below(items.len() as u64)).expect("few");
            bend(dice, &mut items[at]);
        }
        Value::String(text) => *text = format!("{}\u{202e}{}", text.to_uppercase(), dice.next_below(9)),
        value => {
            let others = [json!(null), json!(-1), json!(u64::MAX), json!("7"), json!(true), json!(1.5), json!({})];
            *value = others[usize::try_from(dice.next_below(7)).expect("few")].clone();
        }
    }
}

#[test]
fn bent_and_repeated_updates_have_one_effect_each_and_end_nothing() {
    let rounds = if is_long_run() { 1_500 } else { 300 };
    let test = TelegramTest::with_agent(TestStore::new(TestEngine::Sqlite), "tail -n 1", "");
    let (telegram, mut dice) = (&test.telegram, SeededRandom(77));
    let (chat, group) = (telegram.private_chat("alice"), telegram.create_group());
    telegram.private_chat("mallory");
    telegram.say("alice", chat, "say 0");
    test.wait_for_replies(chat, 2);
    let mut asked = vec!["say 0".to_owned()];
    let (mut bent, mut repeated) = (0, 0);
    for number in 1..=rounds {
        match dice.next_below(10) {
            0 => {
                asked.push(format!("say {number}"));
                telegram.say("alice", chat, &format!("say {number}"));
            }
            1 => drop(telegram.say("mallory", telegram.user_id("mallory"), &format!("evil {number}"))),
            2 => drop(telegram.say("mallory", group, &format!("@grove_bot evil {number}"))),
            3 => drop(telegram.say("alice", group, &format!("no mention {number}"))),
            4 | 5 => {
                // An old one again, under its old number or a new one.
                let all = telegram.all_updates();
                let old = all[usize::try_from(dice.next_below(all.len() as u64)).expect("few")].clone();
                if dice.one_in(2) {
                    telegram.push_numbered(old);
                } else {
                    telegram.push_update(old);
                }
                repeated += 1;
            }
            _ => {
                let from = if dice.one_in(2) { "mallory" } else { "another" };
                let mut update = json!({ "message": { "message_id": 100_000 + number, "date": 1, "text": format!("evil {number}"),
                    "from": { "id": 1_000_000, "is_bot": false, "first_name": from, "username": from },
                    "chat": { "id": chat, "type": "private" }, "entities": [{ "type": "mention", "offset": 0, "length": 4 }] } });
                (0..=dice.next_below(3)).for_each(|_| bend(&mut dice, &mut update));
                telegram.push_update(if update.is_object() { update } else { json!({ "message": update }) });
                bent += 1;
            }
        }
    }
    test.at_rest();
    let said = test.replies(chat);
    let answers: Vec<&String> = said.iter().filter(|text| text.starts_with("say ")).collect();
    assert_eq!(answers, asked.iter().collect::<Vec<_>>());
    assert!(!said.iter().any(|text| text.to_lowercase().contains("evil")), "{said:#?}");
    assert_eq!(test.replies(group), Vec::<String>::new());
    let log = test.server.take_log_lines().join("\n");
    assert!(!log.contains("panicked"), "{log}");
    println!(
        "{rounds} updates: {} asked and answered once, {bent} bent, {repeated} repeated, 0 accepted wrongly",
        asked.len()
    );
}
