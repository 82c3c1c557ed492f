//! How answers look, and what happens when Discord does not take them.

use std::time::{Duration, Instant};

use grove_testkit::discord::DiscordFault;
use grove_testkit::wait_for;
use serde_json::json;

use super::DiscordTest;

fn messages_path(channel: u64) -> String {
    format!("/channels/{channel}/messages")
}

#[test]
fn an_answer_pings_no_account() {
    let test = DiscordTest::open();
    let alice = test.discord.add_user("alicia");
    let thread = test.mention("alice", &format!("echo '@everyone @here <@{alice}> https://example.com'"));
    let said = test.wait_for_texts(thread, 2);
    assert_eq!(said[1], format!("@everyone @here <@{alice}> https://example.com"));
    assert_eq!(test.discord.pings(), Vec::<String>::new());
    for message in test.discord.messages(thread) {
        assert_eq!(message.allowed_mentions, json!({ "parse": [] }));
        assert_eq!(message.flags & 4, 4, "links show no preview");
    }
    let sent = test.discord.received_requests().into_iter();
    let writes = sent.filter(|request| request.body["content"].is_string());
    assert!(writes.clone().count() >= 2);
    for write in writes {
        assert_eq!(write.body["allowed_mentions"], json!({ "parse": [] }), "{write:?}");
    }
}

#[test]
fn a_long_answer_is_split_and_its_code_stays_code() {
    let test = DiscordTest::open();
    // One character more than fits.
    let thread = test.mention("alice", "head -c 2001 /dev/zero | tr '\\0' x");
    let said = test.wait_for_texts(thread, 3);
    assert_eq!((said[1].len(), said[2].len()), (2_000, 1));
    test.discord.say("alice", thread, "echo '```rust'; seq -f 'let line_%g = 1;' 300; echo '```'");
    wait_for(|| test.discord.bot_texts(thread).len() > 3);
    test.at_rest();
    let said = test.discord.bot_texts(thread).split_off(3);
    assert!(said.len() >= 3, "{said:#?}");
    for part in &said {
        assert!(part.starts_with("```rust\n") && part.ends_with("```"), "{part}");
        assert!(part.chars().count() <= 2_000);
    }
    let code = said.iter().flat_map(|part| part.lines()).filter(|line| line.starts_with("let ")).count();
    assert_eq!(code, 300);
}

#[test]
fn a_limit_is_waited_for_and_the_order_is_kept() {
    let test = DiscordTest::open();
    let thread = test.mention("alice", "echo zero");
    test.wait_for_texts(thread, 2);
    test.discord.fail_next_of("POST", &messages_path(thread), 1, DiscordFault::Limited { seconds: 2.5 });
    let (began, before) = (Instant::now(), test.discord.count_requests("POST", &messages_path(thread)));
    test.discord.say("alice", thread, "echo one");
    test.discord.say("alice", thread, "echo two");
    let said = test.wait_for_texts(thread, 4);
    assert!(began.elapsed() >= Duration::from_millis(2_400), "{:?}", began.elapsed());
    assert_eq!(said[2..], ["one", "two"]);
    // One was refused, two were taken.
    assert_eq!(test.discord.count_requests("POST", &messages_path(thread)) - before, 3);
}

#[test]
fn within_the_limits_of_a_channel_everything_is_sent_in_order() {
    let test = DiscordTest::open();
    let direct = test.discord.direct_channel("alice");
    test.discord.limit_channels(2, 1.0);
    for number in 1..=6 {
        test.discord.say("alice", direct, &format!("/help nothing-{number}"));
    }
    let said = test.wait_for_texts(direct, 6);
    for (number, text) in (1..).zip(said) {
        assert!(text.contains(&format!("`/nothing-{number}`")), "{number}: {text}");
    }
    let sent = test.discord.received_requests().into_iter().filter(|request| request.method == "POST");
    let refused = sent.filter(|request| request.status == 429).count();
    assert!((1..=6).contains(&refused), "{refused}");
}

#[test]
fn a_limit_for_all_requests_is_not_hammered() {
    let test = DiscordTest::open();
    let direct = test.discord.direct_channel("alice");
    test.discord.say("alice", direct, "echo zero");
    test.wait_for_texts(direct, 2);
    test.discord.fail_next_of("POST", &messages_path(direct), 1, DiscordFault::GloballyLimited { seconds: 5.0 });
    let before = test.discord.count_requests("POST", &messages_path(direct));
    test.discord.say("alice", direct, "echo one");
    assert_eq!(test.wait_for_texts(direct, 3)[2], "one");
    assert_eq!(test.discord.count_requests("POST", &messages_path(direct)) - before, 2);
}

#[test]
fn an_answer_whose_sending_was_cut_short_is_there_once() {
    let test = DiscordTest::open();
    let thread = test.mention("alice", "echo said");
    test.wait_for_texts(thread, 2);
    let mut expected = 2;
    for fault in [DiscordFault::DropAfter, DiscordFault::DropBefore, DiscordFault::Status(502)] {
        test.discord.fail_next_of("POST", &messages_path(thread), 1, fault.clone());
        test.discord.say("alice", thread, "echo said");
        expected += 1;
        assert_eq!(test.wait_for_texts(thread, expected).last().unwrap(), "said", "{fault:?}");
    }
    // Discord forgets a nonce after some minutes: the answer is found by its text.
    test.discord.fail_next_of("POST", &messages_path(thread), 1, DiscordFault::HoldAfter);
    test.discord.say("alice", thread, "echo said");
    assert!(test.discord.holds_soon(Duration::from_secs(20)));
    test.discord.forget_nonces();
    test.discord.let_go();
    assert_eq!(test.wait_for_texts(thread, expected + 1).last().unwrap(), "said");
}

#[test]
fn a_growing_answer_is_one_message_until_it_is_complete() {
    let test = DiscordTest::open();
    let gate = test.grove.repo.temp_dir().join("gate");
    let wait = format!("until [ -e {} ]; do sleep 0.05; done", gate.display());
    let thread = test.mention("alice", &format!("seq -f 'line %g' 500; {wait}; echo end"));
    wait_for(|| test.discord.bot_texts(thread).iter().any(|text| text.ends_with('…')));
    assert_eq!(test.discord.bot_texts(thread).len(), 2);
    let draft = test.discord.messages(thread).pop().unwrap();
    std::fs::write(gate, "").unwrap();
    wait_for(|| test.discord.bot_texts(thread).last().is_some_and(|text| text.ends_with("end")));
    test.at_rest();
    let said = test.discord.bot_texts(thread).split_off(1);
    assert!(test.discord.message(draft.id).text.starts_with("line 1\n"), "the draft became the first part");
    let lines: Vec<&str> = said.iter().flat_map(|part| part.lines()).collect();
    assert_eq!((lines.len(), lines[499], lines[500]), (501, "line 500", "end"));
    // A deleted message is written anew.
    test.discord.delete(draft.id);
    test.discord.say("alice", thread, "echo after");
    wait_for(|| test.discord.bot_texts(thread).last().is_some_and(|text| text == "after"));
}

#[test]
fn a_thread_that_was_made_before_a_crash_is_used() {
    let test = DiscordTest::open();
    test.discord.fail_next_of("POST", "/threads", 1, DiscordFault::DropAfter);
    let thread = test.mention("alice", "echo once");
    assert_eq!(test.wait_for_texts(thread, 2)[1], "once");
    assert_eq!(test.discord.count_requests("POST", "/threads"), 2);
}
