//! Who is answered, where, and in which worktree.

use grove_testkit::telegram::BOT_NAME;
use grove_testkit::{TestEngine, TestRepo, TestStore, both_engines, wait_for};

use super::{LAST_LINE_AGENT, TelegramTest, write_config};

both_engines! {
    fn a_private_chat_is_answered_from_its_worktree(store: TestStore) {
        let test = TelegramTest::with_settings(store, "");
        let (telegram, checkout) = (&test.telegram, test.grove.repo.snapshot_checkout());
        let chat = telegram.private_chat("alice");
        let asked = telegram.say("alice", chat, "echo one > file; pwd");
        let said = test.wait_for_replies(chat, 2);
        assert!(said[0].starts_with("Working in isolated branch "), "{said:?}");
        assert_eq!(said[1], test.worktree_of(&chat.to_string()).display().to_string());
        wait_for(|| telegram.reactions(chat, asked) == ["👀", "👍"]);
        // The next message goes on there, without a mention.
        telegram.say("alice", chat, "cat file");
        assert_eq!(test.wait_for_replies(chat, 3)[2], "one");
        assert_eq!(test.list_environments().len(), 1);
        checkout.assert_untouched();
        let state = test.adapter_state();
        assert_eq!((&state["state"], &state["detail"]), (&"connected".into(), &"as @grove_bot, asks for updates".into()));
    }
}

#[test]
fn a_group_is_answered_where_it_calls_the_bot() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let group = telegram.create_group();
    telegram.say("alice", group, "echo not for you");
    telegram.say("alice", group, "/status");
    telegram.say("alice", group, "/status@another_bot");
    telegram.say("alice", group, "mail me@grove_bot.dev");
    telegram.say("other_bot", group, &format!("@{BOT_NAME} echo from a bot"));
    telegram.say("alice", group, &format!("hey @{BOT_NAME}, echo called"));
    let said = test.wait_for_replies(group, 2);
    assert!(said[1].contains("hey,: not found"), "{said:?}");
    telegram.say("alice", group, &format!("@{BOT_NAME} echo called"));
    assert_eq!(test.wait_for_replies(group, 3)[2], "called");
    // A reply to the bot needs no mention; one to a person does.
    let answer = telegram.bot_messages(group)[2].id;
    telegram.reply("alice", group, answer, "echo replied");
    let said = test.wait_for_replies(group, 4);
    assert_eq!(said[3], "replied");
    let by_alice = telegram.say("alice", group, "nothing");
    telegram.reply("alice", group, by_alice, "echo no");
    telegram.say("alice", group, &format!("/status@{BOT_NAME}"));
    let said = test.wait_for_replies(group, 5);
    assert!(said[4].contains("agent: mine") || said[4].to_lowercase().contains("codebase"), "{said:?}");
    // An answer replies to no message.
    assert!(telegram.received_requests().iter().all(|asked| asked.body.get("reply_parameters").is_none()));
}

#[test]
fn the_first_press_of_start_shows_the_help() {
    let test = TelegramTest::open();
    let chat = test.telegram.private_chat("alice");
    test.telegram.say("alice", chat, "/start");
    let said = test.wait_for_replies(chat, 1);
    assert!(said[0].contains("/worktree") && said[0].contains("/status"), "{said:?}");
}

#[test]
fn topics_are_conversations_that_begin_as_their_chat_is() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let other = TestRepo::new();
    test.grove.grove(["codebase", "add", other.path().to_str().unwrap(), "--name", "second"]).assert_success();
    let group = telegram.create_group();
    let (one, two) = (telegram.create_topic("alice", group), telegram.create_topic("alice", group));
    // The chat chooses a codebase and an agent; its topics begin with them.
    telegram.say("alice", group, &format!("@{BOT_NAME} /codebase second"));
    telegram.say("alice", group, &format!("@{BOT_NAME} /agent other"));
    test.wait_for_replies(group, 2);
    telegram.say_in_topic("alice", group, one, "echo not for you");
    telegram.say_in_topic("alice", group, one, &format!("@{BOT_NAME} anything"));
    let said = test.wait_for_topic_replies(group, one, 2);
    assert_eq!(said[1], "the other one", "{said:?}");
    // Where the bot works, no mention is needed; the other topic is another conversation.
    telegram.say_in_topic("alice", group, one, "/agent mine");
    telegram.say_in_topic("alice", group, one, "echo one > file; cat file");
    let said = test.wait_for_topic_replies(group, one, 4);
    assert_eq!(said[3], "one", "{said:?}");
    telegram.say_in_topic("alice", group, two, "echo not for you");
    telegram.say_in_topic("alice", group, two, &format!("@{BOT_NAME} /agent mine"));
    telegram.say_in_topic("alice", group, two, "ls file");
    let said = test.wait_for_topic_replies(group, two, 3);
    assert!(said[2].contains("No such file") || said[2].contains("cannot access"), "{said:?}");
    let first = test.worktree_of(&format!("{group}:{one}"));
    assert_ne!(first, test.worktree_of(&format!("{group}:{two}")));
    assert_eq!(test.list_environments().iter().filter(|it| it["codebase"] == "second").count(), 2);
    assert_eq!(test.replies(group).len(), 2, "no answer strays into the chat");
}

#[test]
fn only_the_listed_people_are_answered_by_the_list_as_it_is_now() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let (alice, mallory) = (telegram.private_chat("alice"), telegram.private_chat("mallory"));
    telegram.say("mallory", mallory, "echo no");
    telegram.say("alice", alice, "echo yes");
    test.wait_for_replies(alice, 2);
    assert_eq!(test.replies(mallory), Vec::<String>::new());
    let log = test.server.take_log_lines().join("\n");
    let mallory_id = telegram.user_id("mallory");
    assert!(log.contains(&format!("user={mallory_id}")) && log.contains("adapters.telegram.allowed_users"), "{log}");
    // The list is edited while the server runs: by id, and not alice any more.
    write_config(&test.grove, telegram, LAST_LINE_AGENT, &format!("allowed_users = [\"{mallory_id}\"]"));
    wait_for(|| {
        telegram.say("mallory", mallory, "echo in");
        test.at_rest();
        !test.replies(mallory).is_empty()
    });
    let before = test.replies(alice).len();
    telegram.say("alice", alice, "echo out");
    test.at_rest();
    assert_eq!(test.replies(alice).len(), before);
    assert_eq!(test.replies(mallory).last().map(String::as_str), Some("in"));
}

#[test]
fn a_name_means_the_account_that_had_it_first() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let alice = telegram.private_chat("alice");
    telegram.say("alice", alice, "echo yes");
    test.wait_for_replies(alice, 2);
    telegram.take_over_name("alice");
    let impostor = telegram.private_chat("alice");
    assert_ne!(impostor, alice);
    telegram.say("alice", impostor, "echo no");
    test.at_rest();
    assert_eq!(test.replies(impostor), Vec::<String>::new());
}

#[test]
fn without_a_list_no_person_is_answered_unless_all_are() {
    let store = TestStore::new(TestEngine::Sqlite);
    let test = TelegramTest::with_settings(store, "");
    let (telegram, bob) = (&test.telegram, test.telegram.private_chat("bob"));
    wait_for(|| test.adapter_state()["state"] == "connected");
    write_config(&test.grove, telegram, LAST_LINE_AGENT, "allow_all = true");
    wait_for(|| {
        telegram.say("bob", bob, "echo hello");
        test.at_rest();
        !test.replies(bob).is_empty()
    });
    write_config(&test.grove, telegram, LAST_LINE_AGENT, "");
    wait_for(|| {
        let before = test.replies(bob).len();
        telegram.say("bob", bob, "echo hello");
        test.at_rest();
        test.replies(bob).len() == before
    });
}

#[test]
fn edits_and_forwards_start_nothing() {
    let test = TelegramTest::open();
    let telegram = &test.telegram;
    let chat = telegram.private_chat("alice");
    let asked = telegram.say("alice", chat, "echo one");
    test.wait_for_replies(chat, 2);
    telegram.edit(chat, asked, "echo two");
    telegram.send(
        "alice",
        chat,
        None,
        &serde_json::json!({ "text": "echo evil", "forward_origin": { "type": "hidden_user", "sender_user_name": "M" } }),
    );
    telegram.push_update(serde_json::json!({ "message": { "message_id": 90, "chat": { "id": -5, "type": "group" },
        "from": { "id": 1, "first_name": "A" }, "migrate_to_chat_id": -1_005 } }));
    telegram.push_update(serde_json::json!({ "my_chat_member": { "chat": { "id": -5, "type": "group" },
        "new_chat_member": { "status": "kicked" } } }));
    telegram.say("alice", chat, "echo last");
    assert_eq!(test.wait_for_replies(chat, 3)[2], "last");
    assert!(test.server.take_log_lines().iter().any(|line| line.contains("became a supergroup")));
}
