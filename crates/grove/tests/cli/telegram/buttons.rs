//! Questions with buttons.

use std::fs;
use std::time::Duration;

use grove_testkit::telegram::BotFault;
use grove_testkit::{TestRepo, wait_for};

use super::TelegramTest;

#[test]
fn a_button_chooses_the_repository_and_the_message_runs() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let site = TestRepo::new();
    test.grove.grove(["codebase", "add", site.path().to_str().unwrap(), "--name", "site"]).assert_success();
    let chat = telegram.private_chat("alice");
    telegram.say("alice", chat, "echo it ran");
    let said = test.wait_for_replies(chat, 1);
    assert!(said[0].starts_with("Which repository is this about?"), "{said:?}");
    let question = telegram.bot_messages(chat)[0].clone();
    assert_eq!(question.buttons.len(), 2);
    // An outsider who sees the button gets no further.
    let press = telegram.press("mallory", chat, question.id, "site");
    wait_for(|| telegram.press_answer(&press).is_some_and(|text| text.starts_with("You may not use this bot.")));
    assert_eq!(test.wait_for_replies(chat, 1).len(), 1);
    // Two presses are one answer, and the buttons go.
    let presses = [(), ()].map(|()| telegram.press("alice", chat, question.id, "site"));
    let said = test.wait_for_replies(chat, 4);
    assert_eq!(said[1], "This conversation is about site from now on.");
    assert_eq!(said[3], "it ran");
    wait_for(|| presses.iter().all(|press| telegram.press_answer(press).is_some()));
    wait_for(|| telegram.bot_messages(chat)[0].buttons.is_empty());
    assert_eq!(test.list_environments()[0]["codebase"], "site");
}

#[test]
fn a_button_removes_a_worktree_in_spite_of_its_changes() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let chat = telegram.private_chat("alice");
    telegram.say("alice", chat, "echo changed > README.md");
    test.wait_for_replies(chat, 2);
    let dir = test.worktree_of(&chat.to_string());
    telegram.say("alice", chat, "/worktree remove");
    let said = test.wait_for_replies(chat, 3);
    assert!(said[2].contains("uncommitted changes"), "{said:?}");
    let refused = telegram.bot_messages(chat).pop().unwrap();
    assert_eq!(refused.buttons[0].0, "Remove anyway");
    telegram.press("alice", chat, refused.id, "Remove anyway");
    test.wait_for_replies(chat, 4);
    assert!(!dir.exists());
}

#[test]
fn a_button_runs_an_interrupted_message_again() {
    let mut test = TelegramTest::open();
    let chat = test.telegram.private_chat("alice");
    let gate = test.grove.repo.temp_dir().join("gate");
    let words = format!("if [ -e {0} ]; then echo again; else touch {0}; sleep 60; fi", gate.display());
    test.telegram.say("alice", chat, &words);
    wait_for(|| gate.exists());
    test.server.kill();
    test.restart_server();
    let said = test.wait_for_replies(chat, 2);
    assert!(said[1].contains("was interrupted by a restart"), "{said:?}");
    let question = test.telegram.bot_messages(chat).pop().unwrap();
    test.telegram.press("alice", chat, question.id, "Retry");
    assert_eq!(test.wait_for_replies(chat, 3)[2], "again");
    fs::remove_file(gate).unwrap();
}

#[test]
fn a_press_that_comes_again_after_a_kill_is_one_answer() {
    let mut test = TelegramTest::open();
    let site = TestRepo::new();
    test.grove.grove(["codebase", "add", site.path().to_str().unwrap(), "--name", "site"]).assert_success();
    let chat = test.telegram.private_chat("alice");
    test.telegram.say("alice", chat, "echo ran >> ../count; cat ../count");
    test.wait_for_replies(chat, 1);
    let question = test.telegram.bot_messages(chat)[0].id;
    // The press is in the inbox; the server is killed before Telegram knows.
    test.telegram.fail_next("answerCallbackQuery", 1, BotFault::HoldBefore);
    test.telegram.press("alice", chat, question, "site");
    assert!(test.telegram.holds_soon(Duration::from_secs(20)));
    test.server.kill();
    test.telegram.let_go();
    test.restart_server();
    test.at_rest();
    let said = test.replies(chat);
    let chosen = said.iter().filter(|text| text.starts_with("This conversation is about")).count();
    assert_eq!(chosen, 1, "{said:?}");
}
