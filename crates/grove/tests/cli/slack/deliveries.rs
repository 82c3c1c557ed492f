//! The webhook: signatures, repeated events, the check of the address.

use grove_testkit::on_sqlite;
use grove_testkit::slack::{SIGNING_SECRET, SlackFault, sign_request};
use serde_json::{Value, json};

use super::{EventInput, SlackTest};

impl SlackTest {
    /// Sends a body that was signed so many seconds ago, and returns the status and the text.
    fn post_signed(&self, secret: &str, age: i64, body: &str, content_type: &str) -> (u16, String) {
        let now = jiff::Timestamp::now().as_second();
        let signed = sign_request(secret, now - age, body.as_bytes());
        let mut headers: Vec<(&str, &str)> = signed.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("content-type", content_type));
        let response = self.server.send_request("POST", "/webhooks/slack", &headers, Some(body));
        (response.status, response.text)
    }
}

/// An event about a message of alice's.
fn mention_payload(id: &str, channel: &str, ts: &str, text: &str) -> Value {
    json!({
        "type": "event_callback", "event_id": id,
        "event": { "type": "app_mention", "user": "UALICE", "text": format!("<@UBOT> {text}"), "ts": ts, "channel": channel },
    })
}

on_sqlite! {
    fn only_recent_requests_that_slack_signed_are_accepted(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Webhook);
        let root = test.slack.say("alice", "C1", "no mention");
        let body = mention_payload("Ev1", "C1", &root, "echo signed").to_string();
        let post = |secret: &str, age, body: &str| test.post_signed(secret, age, body, "application/json").0;
        assert_eq!(post(SIGNING_SECRET, 301, &body), 401);
        assert_eq!(post(SIGNING_SECRET, -310, &body), 401);
        assert_eq!(post("another secret", 0, &body), 401);
        assert_eq!(test.server.send_request("POST", "/webhooks/slack", &[], Some(&body)).status, 401);
        for nonsense in ["", "{", "[]", "{}", "{\"type\":\"event_callback\"}"] {
            assert_eq!(post(SIGNING_SECRET, 0, nonsense), 400, "{nonsense}");
        }
        assert_eq!(test.post_signed(SIGNING_SECRET, 0, "a=1", "application/x-www-form-urlencoded").0, 400);
        test.at_rest();
        assert!(test.slack.all_bot_messages().is_empty(), "no event was kept");
        // Accepted, and a refused one is not remembered.
        assert_eq!(post(SIGNING_SECRET, 299, &body), 202);
        assert_eq!(test.wait_for_replies("C1", &root, 2)[1].trim(), "signed");
        let verification = json!({ "type": "url_verification", "challenge": "3eZbrw1aB" }).to_string();
        assert_eq!(test.post_signed(SIGNING_SECRET, 0, &verification, "application/json"), (200, "3eZbrw1aB".to_owned()));
    }

    fn an_event_has_one_effect_however_often_it_comes(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Webhook);
        let slack = &test.slack;
        // A mention comes as two events.
        let thread = slack.say("alice", "C1", "@grove echo once");
        let events: Vec<Value> = slack.sent_events().into_iter().map(|event| event.payload).collect();
        assert_eq!(events.len(), 2);
        for attempt in 1..=3 {
            events.iter().for_each(|event| assert_eq!(slack.resend_event(event, attempt), 202));
        }
        test.wait_for_replies("C1", &thread, 2);
        // Slack's first attempt was lost: the retry is the first that is seen.
        let root = slack.say("alice", "C1", "no mention");
        let unseen = mention_payload("EvUnseen", "C1", &root, "echo retried");
        assert_eq!(slack.resend_event(&unseen, 1), 202);
        assert_eq!(test.wait_for_replies("C1", &root, 2)[1].trim(), "retried");
        for payload in [&events[0], &unseen] {
            assert_eq!(slack.resend_event(payload, 2), 202);
        }
        test.at_rest();
        assert_eq!(slack.all_bot_messages().len(), 4);
    }

    fn the_same_event_through_two_sockets_runs_once(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Sockets);
        grove_testkit::wait_for(|| test.slack.socket_count() == 2);
        test.slack.duplicate_events();
        let thread = test.slack.say("alice", "C1", "@grove echo once");
        test.wait_for_replies("C1", &thread, 2);
        grove_testkit::wait_for(|| test.slack.acknowledged().len() >= 8);
        assert_eq!(test.bot_texts("C1", &thread).len(), 2);
    }

    fn an_archived_channel_does_not_stop_the_others(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Webhook);
        let lost = test.slack.say("alice", "C2", "@grove echo lost");
        test.slack.archive("C2");
        test.slack.fail_next("reactions.add", 1, SlackFault::Status(500));
        let thread = test.slack.say("alice", "C1", "@grove echo hi");
        test.wait_for_replies("C1", &thread, 2);
        assert!(test.bot_texts("C2", &lost).len() < 2);
    }
}
