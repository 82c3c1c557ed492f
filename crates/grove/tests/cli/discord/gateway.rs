//! The gateway breaks in every way, and no message is lost or answered twice.

use std::time::{Duration, Instant};

use grove_testkit::discord::FakeDiscord;
use grove_testkit::{SeededRandom, TestEngine, TestStore, both_engines, is_long_run, wait_for};
use serde_json::json;

use super::{DiscordTest, LAST_LINE_AGENT};

/// Help about a command that does not exist is answered with its name, without an agent.
fn numbered(number: usize) -> String {
    format!("/help nothing-{number}")
}

fn numbers_answered(discord: &FakeDiscord, channel: u64) -> Vec<usize> {
    let texts = discord.bot_texts(channel).into_iter();
    texts.filter_map(|text| text.split_once("`/nothing-")?.1.split_once('`')?.0.parse().ok()).collect()
}

both_engines! {
    fn dropped_connections_lose_nothing(store: TestStore) {
        let (messages, drops) = if is_long_run() { (500, 50) } else { (50, 5) };
        let test = DiscordTest::on_store(store, LAST_LINE_AGENT);
        let discord = &test.discord;
        discord.replay_twice(3);
        let channels = [discord.direct_channel("alice"), test.mention("alice", "/help nothing-0")];
        wait_for(|| discord.thread_name(channels[1]).is_some());
        let (mut dice, mut counted) = (SeededRandom(7), 0);
        for number in 1..=messages {
            if number % (messages / drops) == 0 {
                // The drop before is over: each one counts.
                wait_for(|| discord.is_connected() && discord.gateway_counts().resumed == counted);
                match dice.next_below(4) {
                    0 => discord.close_connections(4000),
                    1 => discord.ask_to_reconnect(),
                    _ => discord.drop_connections(),
                }
                counted += 1;
            }
            discord.say("alice", channels[number % 2], &numbered(number));
        }
        let answered = || channels.iter().map(|channel| numbers_answered(discord, *channel).len()).sum::<usize>();
        let began = Instant::now();
        while answered() < messages + 1 {
            assert!(began.elapsed() < Duration::from_secs(120), "{} {:?}", answered(), discord.gateway_counts());
            std::thread::sleep(grove_testkit::poll_interval(began));
        }
        test.at_rest();
        for (at, channel) in channels.into_iter().enumerate() {
            let expected: Vec<usize> = (0..=messages).filter(|number| number % 2 == at).collect();
            let expected = if at == 0 { &expected[1..] } else { &expected[..] };
            let mut found = numbers_answered(discord, channel);
            if at == 1 {
                // The message that began the thread has the number 0.
                assert_eq!(found.remove(0), 0);
            }
            assert_eq!(found, expected, "in order, once each");
        }
        let counts = discord.gateway_counts();
        assert_eq!((counted, counts.resumed, counts.identified), (drops, drops, 1), "{counts:?}");
        println!("{messages} messages, {counted} drops: 0 lost, 0 doubled; {counts:?}");
    }
}

#[test]
fn a_session_that_is_gone_is_replaced_and_missed_messages_are_found() {
    let test = DiscordTest::open();
    let discord = &test.discord;
    let (direct, thread) = (discord.direct_channel("alice"), test.mention("alice", "/help nothing-1"));
    discord.say("alice", direct, &numbered(1));
    wait_for(|| numbers_answered(discord, direct) == [1] && numbers_answered(discord, thread) == [1]);
    test.at_rest();
    discord.expire_sessions();
    discord.drop_connections();
    // No session is told of these.
    discord.say("alice", direct, &numbered(2));
    discord.say("alice", thread, &numbered(2));
    let mentioned = test.mention("alice", "/help nothing-2");
    test.mention("mallory", "/help nothing-3");
    wait_for(|| numbers_answered(discord, direct) == [1, 2] && numbers_answered(discord, thread) == [1, 2]);
    wait_for(|| numbers_answered(discord, mentioned) == [2]);
    test.at_rest();
    assert_eq!(numbers_answered(discord, direct), [1, 2]);
    assert!(discord.bot_texts(test.general).is_empty());
    let counts = discord.gateway_counts();
    assert_eq!((counts.identified, counts.invalidated), (2, 1), "{counts:?}");
}

#[test]
fn messages_while_the_server_is_down_are_answered_after_its_start() {
    let mut test = DiscordTest::open();
    let thread = test.mention("alice", "/help nothing-1");
    wait_for(|| numbers_answered(&test.discord, thread) == [1]);
    test.server.terminate();
    test.discord.say("alice", thread, &numbered(2));
    let mentioned = test.mention("alice", "/help nothing-3");
    test.restart_server();
    wait_for(|| numbers_answered(&test.discord, thread) == [1, 2]);
    wait_for(|| numbers_answered(&test.discord, mentioned) == [3]);
    let counts = test.discord.gateway_counts();
    assert_eq!((counts.identified, counts.resumed), (1, 1), "{counts:?}");
}

#[test]
fn the_same_event_twice_is_one_message() {
    let test = DiscordTest::open();
    let thread = test.mention("alice", "/help nothing-1");
    for _ in 0..3 {
        test.discord.repeat_message(thread);
    }
    wait_for(|| test.discord.thread_name(thread).is_some());
    let later = test.discord.say("alice", thread, &numbered(2));
    test.discord.repeat_message(later);
    test.discord.repeat_message(thread);
    test.discord.say("alice", thread, &numbered(3));
    wait_for(|| numbers_answered(&test.discord, thread).contains(&3));
    test.at_rest();
    assert_eq!(numbers_answered(&test.discord, thread), [1, 2, 3]);
    assert_eq!(test.discord.count_requests("POST", "/threads"), 1);
}

#[test]
fn a_bad_token_is_not_hammered_and_others_go_on() {
    let test = DiscordTest::open();
    test.discord.revoke_token();
    test.discord.close_connections(4004);
    test.wait_for_state("failing");
    let detail = test.status()["adapters"]["discord"]["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("`adapters.discord.token`"), "{detail}");
    let before = test.discord.gateway_counts().connections;
    // The other adapters are used meanwhile.
    for number in 0..3 {
        assert_eq!(test.server.ask("c", &format!("echo {number}")).last().unwrap(), &number.to_string());
    }
    let began = Instant::now();
    wait_for(|| began.elapsed() > Duration::from_secs(4));
    let connections = test.discord.gateway_counts().connections - before;
    assert!(connections <= 1, "{connections} in four seconds");
    let doctor = test.grove.grove(["doctor"]).assert_exit_code(1).stdout;
    assert!(doctor.contains("bad  discord: Discord does not take the token"), "{doctor}");
}

#[test]
fn a_missing_intent_is_told() {
    let test = DiscordTest::open();
    test.discord.forbid_message_content();
    test.discord.expire_sessions();
    test.discord.drop_connections();
    test.wait_for_state("failing");
    let detail = test.status()["adapters"]["discord"]["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("Message Content Intent"), "{detail}");
    let doctor = test.grove.grove(["doctor"]).assert_exit_code(1).stdout;
    assert!(doctor.contains("bad  discord message content: the intent is switched off"), "{doctor}");
}

#[test]
fn nonsense_from_the_gateway_changes_nothing() {
    let test = DiscordTest::set_up(TestStore::new(TestEngine::Sqlite), LAST_LINE_AGENT, |_| {});
    for text in ["", "{", "null", "[]", "{\"op\":99}", "{\"op\":0}", "{\"op\":0,\"t\":\"MESSAGE_CREATE\",\"d\":5}"] {
        test.discord.send_raw(text);
    }
    for payload in [json!(null), json!({}), json!({ "id": "1" }), json!({ "id": {}, "author": [] })] {
        test.discord.dispatch("MESSAGE_CREATE", &payload);
        test.discord.dispatch("INTERACTION_CREATE", &payload);
        test.discord.dispatch("GUILD_CREATE", &payload);
        test.discord.dispatch("SOMETHING_NEW", &payload);
    }
    let thread = test.mention("alice", "/help nothing-1");
    wait_for(|| numbers_answered(&test.discord, thread) == [1]);
}
