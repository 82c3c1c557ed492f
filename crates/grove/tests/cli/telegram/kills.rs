//! Killed between what is stored and what is sent, again and again.
//!
//! The fake holds a request of the server's, before or after it did what it was asked for; then the server is
//! killed, and never learns the outcome. Telegram offers no key and no look-up, so the one message that was on
//! its way may be there twice; nothing else is, nothing is lost, and the order is kept.

use std::time::{Duration, Instant};

use grove_testkit::telegram::{BotFault, BotMessage};
use grove_testkit::{SeededRandom, both_engines, is_long_run};

use super::TelegramTest;

/// The number of lines of a long answer, which takes three messages.
const LONG_ANSWER_LINES: usize = 700;
const LONG_ANSWER_PARTS: usize = 3;

fn long_answer(number: usize) -> String {
    (1..=LONG_ANSWER_LINES).map(|line| format!("line {line} of {number}")).collect::<Vec<_>>().join("\n")
}

/// Returns the texts, each without the repetition that directly follows it, and the number of repetitions.
fn without_doubles(messages: &[BotMessage]) -> (Vec<String>, usize) {
    let mut texts: Vec<String> = messages.iter().map(|message| message.text.trim().to_owned()).collect();
    let all = texts.len();
    texts.dedup();
    let doubled = all - texts.len();
    (texts, doubled)
}

both_engines! {
    fn at_most_the_message_on_its_way_is_doubled_however_often_the_server_is_killed(store: TestStore) {
        let kills = if is_long_run() { 100 } else { 10 };
        let (mut dice, began) = (SeededRandom(41), Instant::now());
        let mut test = TelegramTest::with_settings(store, "streaming = \"batch\"");
        let chat = test.telegram.private_chat("alice");
        test.telegram.say("alice", chat, "echo zero");
        test.wait_for_replies(chat, 2);
        let mut expected = test.replies(chat);
        let (mut done, mut doubled_before) = (0, 0);
        for number in 1..=kills {
            let is_long = number % 2 == 0;
            let part = usize::try_from(dice.next_below(LONG_ANSWER_PARTS as u64)).expect("few");
            let fault = if dice.one_in(2) { BotFault::HoldAfter } else { BotFault::HoldBefore };
            if is_long && part > 0 {
                test.telegram.fail_next("sendMessage", part, BotFault::Spared);
            }
            test.telegram.fail_next("sendMessage", 1, fault);
            let words = if is_long {
                expected.push(long_answer(number));
                format!("seq -f 'line %g of {number}' {LONG_ANSWER_LINES}")
            } else {
                expected.push(format!("answer-{number}"));
                format!("echo answer-{number}")
            };
            test.telegram.say("alice", chat, &words);
            assert!(test.telegram.holds_soon(Duration::from_secs(30)), "{:#?}", test.server.take_log_lines());
            test.server.kill();
            test.telegram.let_go();
            // Another message comes in while no server runs.
            test.telegram.say("alice", chat, &format!("echo next-{number}"));
            expected.push(format!("next-{number}"));
            test.restart_server();
            test.at_rest();
            let (texts, doubled) = without_doubles(&test.telegram.bot_messages(chat));
            // Carried out before the kill: at most twice. Not carried out: exactly once.
            let may_be = usize::from(fault == BotFault::HoldAfter);
            assert!(doubled - doubled_before <= may_be, "{number} {fault:?}: {doubled}");
            done += may_be;
            doubled_before = doubled;
            assert!(texts.join("\n") == expected.join("\n"), "{number} {fault:?}: {texts:#?}");
        }
        println!(
            "{kills} kills in {} s: {} answers, 0 lost, order kept; {done} killed after the request, {doubled_before} messages twice",
            began.elapsed().as_secs(), expected.len()
        );
    }
}

both_engines! {
    fn a_part_that_was_sent_is_not_sent_again_when_the_connection_breaks(store: TestStore) {
        let test = TelegramTest::with_settings(store, "streaming = \"batch\"");
        let chat = test.telegram.private_chat("alice");
        test.telegram.say("alice", chat, "echo zero");
        test.wait_for_replies(chat, 2);
        test.telegram.fail_next("sendMessage", 1, BotFault::Spared);
        test.telegram.fail_next("sendMessage", 1, BotFault::DropBefore);
        test.telegram.say("alice", chat, &format!("seq -f 'line %g of 1' {LONG_ANSWER_LINES}"));
        let said = test.wait_for_replies(chat, 2 + LONG_ANSWER_PARTS).split_off(2);
        assert_eq!(said.iter().map(|text| text.trim()).collect::<Vec<_>>().join("\n"), long_answer(1));
    }
}
