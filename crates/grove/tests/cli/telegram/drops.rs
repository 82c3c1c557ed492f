//! Connections that break all the time.

use std::time::Instant;

use grove_testkit::telegram::BotFault;
use grove_testkit::{SeededRandom, is_long_run};

use super::TelegramTest;

#[test]
fn no_message_is_lost_while_connections_break() {
    let messages = if is_long_run() { 500 } else { 50 };
    let (test, mut dice, began) = (TelegramTest::open(), SeededRandom(5), Instant::now());
    let telegram = &test.telegram;
    let chats = ["alice"].map(|name| telegram.private_chat(name)).into_iter().chain([telegram.create_group()]);
    let chats: Vec<i64> = chats.collect();
    let mut drops = 0;
    for number in 0..messages {
        if dice.one_in(5) {
            let method = ["getUpdates", "sendMessage", "getUpdates", "setMessageReaction"][number % 4];
            // A message that was carried out before the connection broke may come twice; see `kills`.
            let fault =
                if method == "getUpdates" && dice.one_in(2) { BotFault::DropAfter } else { BotFault::DropBefore };
            telegram.fail_next(method, 1, fault);
            drops += 1;
        }
        let chat = chats[number % 2];
        telegram.say("alice", chat, &format!("@grove_bot echo answer-{number}"));
        if number % 10 == 9 {
            test.at_rest();
        }
    }
    test.at_rest();
    for (at, chat) in chats.iter().enumerate() {
        let said = test.replies(*chat).split_off(1);
        let expected: Vec<String> =
            (0..messages).filter(|number| number % 2 == at).map(|number| format!("answer-{number}")).collect();
        assert_eq!(said, expected);
    }
    println!("{messages} messages, {drops} broken connections in {} s: 0 lost, 0 doubled", began.elapsed().as_secs());
}
