use serde_json::{Value, json};

use super::*;

const CHAT: i64 = -1_005;

fn grove_bot() -> BotIdentity {
    BotIdentity { id: 7, name: BotName::parse("grove_bot").unwrap() }
}

/// Returns what an update means, in a few words.
fn meaning(update: &Value) -> String {
    let update = Update::parse(update.to_string().as_bytes()).unwrap();
    match classify_update(&update, &grove_bot()) {
        Relevance::Ignored(why) => format!("ignored: {why}"),
        Relevance::Migrated { from, to } => format!("migrated: {from} {to}"),
        Relevance::Member { status, .. } => format!("member: {status}"),
        Relevance::Message(message) => {
            let call = if message.call == BotCall::Called { "" } else { " (if it works there)" };
            format!("{}: {}{call}", message.place, message.text)
        }
        Relevance::Pressed(pressed) => format!("pressed: {}", pressed.data.as_deref().unwrap_or_default()),
    }
}

fn message(kind: &str, more: &Value) -> Value {
    let chat = if kind == "private" { 5 } else { CHAT };
    let mut message = json!({
        "message_id": 3, "date": 1, "from": { "id": 5, "is_bot": false, "first_name": "Alice", "username": "alice" },
        "chat": { "id": chat, "type": kind }, "an_unknown_field": { "x": [1] },
    });
    for (name, value) in more.as_object().unwrap() {
        message[name] = value.clone();
    }
    json!({ "update_id": 1, "message": message })
}

fn private(text: &str) -> String {
    meaning(&message("private", &json!({ "text": text })))
}

fn group(text: &str) -> String {
    meaning(&message("supergroup", &json!({ "text": text })))
}

#[test]
fn a_private_chat_needs_no_mention() {
    assert_eq!(private("hello"), "5: hello");
    assert_eq!(private("@grove_bot, hello"), "5: hello");
    assert_eq!(private("/status"), "5: /status");
    assert_eq!(private("/start"), "5: /help");
    assert_eq!(private("/start abc"), "5: /help");
    assert_eq!(private("/started"), "5: /started");
    assert_eq!(private("   "), "ignored: without a text");
}

#[test]
fn a_group_needs_a_mention() {
    assert_eq!(group("hello"), "ignored: not for us");
    assert_eq!(group("@grove_bot hello"), "-1005: hello");
    assert_eq!(group("hello @GROVE_BOT!"), "-1005: hello!");
    assert_eq!(group("/status@grove_bot"), "-1005: /status");
    assert_eq!(group("/run@Grove_Bot plan it"), "-1005: /run plan it");
    assert_eq!(group("/status@other_bot"), "ignored: a command for another bot");
    assert_eq!(group("/status"), "ignored: not for us");
    assert_eq!(group("mail me@grove_bot.dev"), "ignored: not for us");
    assert_eq!(group("@grove_bot2 hello"), "ignored: not for us");
    let code = json!({ "text": "try @grove_bot", "entities": [{ "type": "code", "offset": 4, "length": 10 }] });
    assert_eq!(meaning(&message("supergroup", &code)), "ignored: not for us");
    let by_name = json!({ "text": "Grove, go", "entities": [{ "type": "text_mention", "offset": 0, "length": 5, "user": { "id": 7 } }] });
    assert_eq!(meaning(&message("group", &by_name)), "-1005: go");
    let caption = json!({ "caption": "@grove_bot look", "photo": [{}] });
    assert_eq!(meaning(&message("group", &caption)), "-1005: look");
}

#[test]
fn a_reply_to_the_bot_needs_none() {
    let reply = |from: i64| {
        json!({ "text": "and now?", "reply_to_message":
        { "message_id": 2, "chat": { "id": CHAT }, "from": { "id": from, "is_bot": from == 7 }, "text": "done" } })
    };
    assert_eq!(meaning(&message("group", &reply(7))), "-1005: and now?");
    assert_eq!(meaning(&message("group", &reply(6))), "ignored: not for us");
}

#[test]
fn a_topic_is_a_conversation_of_its_own() {
    let topic = |text: &str, more: Value| {
        let mut fields = json!({ "text": text, "message_thread_id": 9, "is_topic_message": true });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        meaning(&message("supergroup", &fields))
    };
    assert_eq!(topic("@grove_bot hello", json!({})), "-1005:9: hello");
    assert_eq!(topic("hello", json!({})), "-1005:9: hello (if it works there)");
    // The beginning of the topic is no message that is replied to, even if the bot created it.
    let start =
        json!({ "reply_to_message": { "message_id": 9, "chat": { "id": CHAT }, "from": { "id": 7, "is_bot": true } } });
    assert_eq!(topic("hello", start), "-1005:9: hello (if it works there)");
    // A thread of replies is no topic.
    let thread = json!({ "text": "@grove_bot hello", "message_thread_id": 9 });
    assert_eq!(meaning(&message("supergroup", &thread)), "-1005: hello");
}

#[test]
fn what_a_person_did_not_write_is_ignored() {
    for (more, why) in [
        (json!({ "from": { "id": 7, "is_bot": true } }), "written by a bot"),
        (json!({ "from": { "id": 8, "is_bot": true } }), "written by a bot"),
        (json!({ "from": null }), "without an author"),
        (json!({ "sender_chat": { "id": -9 } }), "forwarded, or written for a chat or by a bot"),
        (json!({ "via_bot": { "id": 9 } }), "forwarded, or written for a chat or by a bot"),
        (json!({ "forward_origin": { "type": "hidden_user" } }), "forwarded, or written for a chat or by a bot"),
        (
            json!({ "forward_origin": { "type": "user", "sender_user": { "id": 6 } } }),
            "forwarded, or written for a chat or by a bot",
        ),
    ] {
        let mut fields = json!({ "text": "hello" });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(meaning(&message("private", &fields)), format!("ignored: {why}"), "{more}");
    }
    let own = json!({ "text": "hello", "forward_origin": { "type": "user", "sender_user": { "id": 5 } } });
    assert_eq!(meaning(&message("private", &own)), "5: hello");
    assert_eq!(meaning(&message("channel", &json!({ "text": "hello" }))), "ignored: not in a chat with people");
}

#[test]
fn other_updates_are_told_apart() {
    assert_eq!(meaning(&json!({ "update_id": 1 })), "ignored: no message");
    assert_eq!(meaning(&json!({ "update_id": 1, "poll": {} })), "ignored: no message");
    assert_eq!(meaning(&json!({ "update_id": 1, "edited_message": { "x": 1 } })), "ignored: an edit");
    assert_eq!(meaning(&message("group", &json!({ "migrate_to_chat_id": -10_077 }))), "migrated: -1005 -10077");
    let member =
        json!({ "update_id": 1, "my_chat_member": { "chat": { "id": 1 }, "new_chat_member": { "status": "kicked" } } });
    assert_eq!(meaning(&member), "member: kicked");
    let press = |bot: bool| json!({ "update_id": 1, "callback_query": { "id": "q", "from": { "id": 5, "is_bot": bot }, "data": "d" } });
    assert_eq!(meaning(&press(false)), "pressed: d");
    assert_eq!(meaning(&press(true)), "ignored: pressed by a bot");
    for (more, expected) in [
        (json!({ "document": { "file_id": "f" } }), "5: "),
        (json!({ "document": { "file_id": "f" }, "media_group_id": "g" }), "ignored: without a text"),
        (json!({ "photo": [{}] }), "ignored: without a text"),
        (json!({ "new_chat_title": "x" }), "ignored: without a text"),
    ] {
        assert_eq!(meaning(&message("private", &more)), expected, "{more}");
    }
}

#[test]
fn a_body_that_is_no_update_is_an_error() {
    for bad in
        ["", "[]", "{}", "null", "{\"update_id\":\"x\"}", "{\"update_id\":1,\"message\":{}}", "{\"update_id\":1.5}"]
    {
        assert!(Update::parse(bad.as_bytes()).is_err(), "{bad}");
    }
}
