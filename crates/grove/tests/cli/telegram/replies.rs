//! How answers look, and how they get there.

use std::time::{Duration, Instant};

use grove_testkit::telegram::BotFault;
use grove_testkit::{TestEngine, TestStore, wait_for};
use serde_json::json;

use super::TelegramTest;

#[test]
fn a_long_answer_comes_in_parts_and_code_stays_code() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let chat = telegram.private_chat("alice");
    telegram.say("alice", chat, "head -c 4096 /dev/zero | tr '\\0' x");
    assert_eq!(test.wait_for_replies(chat, 2)[1].len(), 4096);
    telegram.say("alice", chat, "head -c 4097 /dev/zero | tr '\\0' x");
    let said = test.wait_for_replies(chat, 4);
    assert_eq!((said[2].len(), said[3].len()), (4096, 1));
    telegram.say("alice", chat, "echo '```rust'; yes 'a line. of it!' | head -n 600; echo '```'");
    wait_for(|| test.replies(chat).len() > 6 && test.is_at_rest());
    let parts = telegram.bot_messages(chat).split_off(4);
    assert!(parts.iter().all(|part| part.is_markdown && part.raw.encode_utf16().count() <= 4096));
    assert!(parts.iter().all(|part| part.raw.starts_with("```rust\n") && part.raw.ends_with("```")));
    assert_eq!(parts.iter().map(|part| part.text.matches("a line. of it!").count()).sum::<usize>(), 600);
}

#[test]
fn markdown_is_shown_as_what_it_means() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let chat = telegram.private_chat("alice");
    let markdown = "# Done. **Bold**, _it_, ~~no~~ and `a_b` at [here](https://x.dev/a_(b)).";
    telegram.say("alice", chat, &format!("echo '{markdown}'"));
    test.wait_for_replies(chat, 2);
    let answer = telegram.bot_messages(chat).pop().unwrap();
    assert_eq!(answer.text, "Done. Bold, it, no and a_b at here.");
    let kinds: Vec<&str> = answer.entities.iter().map(|(kind, _)| kind.as_str()).collect();
    assert!(
        kinds.contains(&"Link https://x.dev/a_(b)") && kinds.contains(&"Code") && kinds.contains(&"Bold"),
        "{answer:?}"
    );
    let sent = telegram.received_requests().into_iter().filter(|asked| asked.method == "sendMessage");
    assert!(sent.into_iter().all(|asked| asked.body["link_preview_options"]["is_disabled"] == true));
}

#[test]
fn what_telegram_does_not_understand_is_sent_as_plain_text() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let chat = telegram.private_chat("alice");
    telegram.say("alice", chat, "echo first");
    test.wait_for_replies(chat, 2);
    telegram.fail_next("sendMessage", 1, BotFault::BadEntities);
    telegram.say("alice", chat, "echo '**as** it. is'");
    test.wait_for_replies(chat, 3);
    let answer = telegram.bot_messages(chat).pop().unwrap();
    assert_eq!((answer.text.as_str(), answer.is_markdown), ("**as** it. is", false));
}

#[test]
fn a_limit_is_waited_for_and_the_order_is_kept() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let (chat, group) = (telegram.private_chat("alice"), telegram.create_group());
    telegram.say("alice", chat, "echo zero");
    test.wait_for_replies(chat, 2);
    telegram.fail_next("sendMessage", 1, BotFault::TooMany { retry_after: 3 });
    let began = Instant::now();
    telegram.say("alice", chat, "echo one");
    telegram.say("alice", chat, "echo two");
    telegram.say("alice", group, "@grove_bot echo elsewhere");
    let said = test.wait_for_replies(chat, 4);
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(said[2..], ["one", "two"]);
    assert_eq!(test.wait_for_replies(group, 2)[1], "elsewhere");
    assert_eq!(telegram.received_requests().iter().filter(|asked| asked.status == 429).count(), 1);
}

#[test]
fn an_answer_grows_in_one_message_and_survives_its_deletion() {
    let test = TelegramTest::with_settings(TestStore::new(TestEngine::Sqlite), "update_seconds = 1");
    let telegram = &test.telegram;
    let chat = telegram.private_chat("alice");
    telegram.say("alice", chat, "echo zero");
    test.wait_for_replies(chat, 2);
    telegram.say("alice", chat, "echo '**first**'; sleep 5; echo last");
    test.wait_for_replies(chat, 3);
    let grown = telegram.bot_messages(chat).pop().unwrap();
    let (first, last) = (grown.versions.first().map(String::as_str), grown.versions.last().map(String::as_str));
    assert_eq!((first, last), (Some("**first**\n\n…"), Some("first\nlast")), "{grown:?}");
    // A draft that a person deletes does not take the answer with it.
    telegram.say("alice", chat, "echo begin; sleep 5; echo end");
    wait_for(|| test.replies(chat).len() == 4);
    let draft = telegram.bot_messages(chat).pop().unwrap();
    telegram.delete_message(chat, draft.id);
    let said = test.wait_for_replies(chat, 4);
    assert_eq!(said[3], "begin\nend");
}

#[test]
fn a_chat_that_blocked_the_bot_does_not_hold_up_others() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let (chat, group) = (telegram.private_chat("alice"), telegram.create_group());
    let gate = test.grove.repo.temp_dir().join("gate");
    telegram.say("alice", chat, &format!("until [ -e {} ]; do sleep 0.02; done; echo late", gate.display()));
    test.wait_for_blocked_start(chat);
    telegram.block_bot(chat);
    std::fs::write(&gate, "").unwrap();
    telegram.say("alice", group, "@grove_bot echo here");
    assert_eq!(test.wait_for_replies(group, 2)[1], "here");
    test.at_rest();
    assert_eq!(test.replies(chat).len(), 1);
    assert!(test.server.take_log_lines().iter().any(|line| line.contains("delivery given up")));
}

#[test]
fn an_unanswerable_request_is_marked() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let chat = telegram.private_chat("alice");
    let asked = telegram.say("alice", chat, "/worktree remove nothing-of-this-name");
    test.wait_for_replies(chat, 1);
    wait_for(|| telegram.reactions(chat, asked) == ["👀", "👎"]);
    let reactions = telegram.received_requests().into_iter().filter(|it| it.method == "setMessageReaction");
    assert!(reactions.into_iter().all(|it| it.status == 200 && it.body["reaction"][0]["type"] == json!("emoji")));
}

impl TelegramTest {
    /// Waits for the notice that a message begins with.
    fn wait_for_blocked_start(&self, chat: i64) {
        wait_for(|| self.replies(chat).len() == 1);
    }
}
