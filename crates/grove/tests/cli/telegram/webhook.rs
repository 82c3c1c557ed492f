//! Updates by webhook, and what stands in the way of polling.

use std::time::Duration;

use grove_testkit::telegram::{BOT_NAME, BotFault};
use grove_testkit::{TestEngine, TestStore, wait_for};
use serde_json::json;

use super::TelegramTest;

const WEBHOOK_SECRET: &str = "a-secret_of-the-webhook";
const SECRET_HEADER: &str = "X-Telegram-Bot-Api-Secret-Token";

fn with_webhook() -> TelegramTest {
    let settings = format!("webhook_secret = \"{WEBHOOK_SECRET}\"");
    let test = TelegramTest::with_settings(TestStore::new(TestEngine::Sqlite), &settings);
    test.telegram.set_webhook(&format!("{}/webhooks/telegram", test.server.address), WEBHOOK_SECRET);
    test
}

impl TelegramTest {
    fn post_update(&self, secret: Option<&str>, body: &str) -> u16 {
        let headers: Vec<(&str, &str)> = secret.map(|secret| (SECRET_HEADER, secret)).into_iter().collect();
        self.server.send_request("POST", "/webhooks/telegram", &headers, Some(body)).status
    }
}

#[test]
fn only_the_secret_opens_the_webhook_and_a_replay_runs_once() {
    let test = with_webhook();
    let telegram = &test.telegram;
    let chat = telegram.private_chat("alice");
    telegram.say("alice", chat, "echo ran >> count; cat count");
    let update = telegram.pending_updates()[0].to_string();
    for wrong in [None, Some(""), Some("a-secret_of-the-webhoo"), Some("A-secret_of-the-webhook"), Some("x")] {
        assert_eq!(test.post_update(wrong, &update), 401, "{wrong:?}");
    }
    for malformed in ["", "{", "[]", "{}", "null", "{\"update_id\":1,\"message\":7}"] {
        assert_eq!(test.post_update(Some(WEBHOOK_SECRET), malformed), 400, "{malformed}");
    }
    assert_eq!(telegram.deliver_updates(), [202]);
    for _ in 0..3 {
        assert_eq!(test.post_update(Some(WEBHOOK_SECRET), &update), 202);
    }
    assert_eq!(test.wait_for_replies(chat, 2)[1], "ran");
    // The same message under another number is still the same message.
    let mut again: serde_json::Value = serde_json::from_str(&update).unwrap();
    again["update_id"] = json!(9_999);
    assert_eq!(test.post_update(Some(WEBHOOK_SECRET), &again.to_string()), 202);
    assert_eq!(test.post_update(Some(WEBHOOK_SECRET), "{\"update_id\":10000,\"a_new_kind\":{}}"), 202);
    assert_eq!(test.wait_for_replies(chat, 2).len(), 2);
    assert_eq!(telegram.count_requests("getUpdates"), 0, "no polling");
    assert_eq!(test.adapter_state()["state"], "connected");
}

#[test]
fn without_a_secret_the_webhook_is_closed() {
    let test = TelegramTest::open();
    for secret in [None, Some(""), Some("x")] {
        assert_eq!(test.post_update(secret, "{\"update_id\":1}"), 401);
    }
}

#[test]
fn a_webhook_in_the_way_of_polling_is_said_and_going() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let chat = telegram.private_chat("alice");
    telegram.set_webhook("https://elsewhere.example/hook", "x");
    // The request that waits at this moment ends with the next message.
    telegram.say("alice", chat, "echo zero");
    wait_for(|| test.adapter_state()["state"] == "failing");
    let detail = test.adapter_state()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("A webhook is set for this bot") && detail.contains("deleteWebhook"), "{detail}");
    telegram.delete_webhook();
    wait_for(|| test.adapter_state()["state"] == "connected");
    telegram.say("alice", chat, "echo one");
    assert_eq!(test.wait_for_replies(chat, 3)[2], "one");
}

#[test]
fn a_bad_token_is_said_and_not_tried_again_and_again() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let chat = telegram.private_chat("alice");
    telegram.say("alice", chat, "echo one");
    test.wait_for_replies(chat, 2);
    let good = telegram.token();
    telegram.revoke_token();
    // The request that waits at this moment ends; the next one is refused.
    for number in 0..10 {
        telegram.say("alice", chat, &format!("echo {number}"));
    }
    wait_for(|| test.adapter_state()["state"] == "failing");
    let before = telegram.received_requests().len();
    std::thread::sleep(Duration::from_secs(5));
    let asked = telegram.received_requests().len() - before;
    assert!(asked <= 4, "{asked} requests");
    let detail = test.adapter_state()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("does not take our token") && detail.contains("@BotFather"), "{detail}");
    assert!(!detail.contains(&good) && !test.server.take_log_lines().join("\n").contains(&good));
    // The rest of the server goes on.
    assert_eq!(test.server.ask("c", "echo here").last().map(String::as_str), Some("here"));
    // A token that works again is found out, and nothing was lost.
    telegram.accept_token(&good);
    wait_for(|| test.adapter_state()["state"] == "connected");
    wait_for(|| test.replies(chat).len() == 12 && test.is_at_rest());
    let said = test.replies(chat).split_off(2);
    assert_eq!(said, (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_server_error_is_waited_out() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let group = telegram.create_group();
    telegram.fail_next("getUpdates", 2, BotFault::Status(502));
    telegram.say("alice", group, &format!("@{BOT_NAME} echo one"));
    telegram.fail_next("sendMessage", 1, BotFault::Status(500));
    assert_eq!(test.wait_for_replies(group, 2)[1], "one");
    wait_for(|| test.adapter_state()["state"] == "connected");
}
