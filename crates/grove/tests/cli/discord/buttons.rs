//! Buttons and slash commands.

use std::time::Duration;

use grove_testkit::{TestRepo, wait_for};
use serde_json::{Value, json};

use super::DiscordTest;

impl DiscordTest {
    /// The last message of the bot with buttons.
    fn question(&self, channel: u64) -> (u64, Vec<String>) {
        let asked = self.discord.messages(channel).into_iter().rfind(|message| !message.buttons.is_empty());
        let asked = asked.unwrap_or_else(|| panic!("{:#?}", self.discord.messages(channel)));
        (asked.id, asked.buttons)
    }

    fn wait_for_reply(&self, interaction: u64) -> String {
        wait_for(|| self.discord.interaction(interaction).reply.is_some());
        let done = self.discord.interaction(interaction);
        assert_eq!(done.receipt, Some(5));
        assert!(done.acknowledged_after.unwrap() < Duration::from_secs(3));
        done.reply.unwrap()
    }
}

#[test]
fn which_repository_is_chosen_by_a_button() {
    let (test, site) = (DiscordTest::open(), TestRepo::new());
    let path = site.path().to_str().unwrap().to_owned();
    test.grove.grove(["codebase", "add", path.as_str(), "--name", "site"]).assert_success();
    let thread = test.mention("alice", "git rev-parse --path-format=absolute --git-common-dir");
    test.wait_for_texts(thread, 1);
    let (question, buttons) = test.question(thread);
    assert_eq!(buttons, ["app", "site"]);
    // An outsider's press changes nothing, and neither does a made-up one.
    test.discord.press("mallory", question, "app");
    test.discord.press_data("alice", question, "00000000-0000-0000-0000-000000000000:0");
    test.discord.press_data("alice", question, "nonsense");
    test.at_rest();
    assert_eq!(test.discord.bot_texts(thread).len(), 1);
    let pressed = test.discord.press("alice", question, "site");
    let said = test.wait_for_texts(thread, 4);
    assert_eq!(said[1], "This conversation is about `site` from now on.");
    assert_eq!(said[3], site.path().canonicalize().unwrap().join(".git").display().to_string());
    let done = test.discord.interaction(pressed);
    assert_eq!(done.receipt, Some(6), "nothing is shown for a press");
    assert!(done.acknowledged_after.unwrap() < Duration::from_secs(3));
    wait_for(|| test.discord.message(question).buttons.is_empty());
}

#[test]
fn remove_anyway_and_retry_are_buttons() {
    let test = DiscordTest::open();
    let thread = test.mention("alice", "echo work > untracked.txt; echo made");
    test.wait_for_texts(thread, 2);
    test.discord.say("alice", thread, "/worktree remove");
    wait_for(|| test.discord.messages(thread).iter().any(|message| message.buttons == ["Remove anyway"]));
    assert_eq!(test.list_environments().len(), 1);
    let (question, _) = test.question(thread);
    test.discord.press("alice", question, "Remove anyway");
    wait_for(|| test.list_environments().is_empty());

    let gate = test.grove.repo.temp_dir().join("gate");
    let gate = gate.display();
    let words = format!("if [ -e {gate} ]; then echo again; else touch {gate}; sleep 60; fi");
    let thread = test.mention("alice", &words);
    wait_for(|| test.grove.repo.temp_dir().join("gate").exists());
    test.discord.say("alice", thread, "/stop");
    wait_for(|| test.discord.messages(thread).iter().any(|message| message.buttons == ["Retry"]));
    let (question, _) = test.question(thread);
    test.discord.press("alice", question, "Retry");
    wait_for(|| test.discord.bot_texts(thread).last().is_some_and(|text| text == "again"));
}

#[test]
fn slash_commands_are_registered_and_answered() {
    let test = DiscordTest::open();
    wait_for(|| !test.discord.commands().is_empty());
    let names: Vec<Value> = test.discord.commands().iter().map(|command| command["name"].clone()).collect();
    for name in ["help", "status", "worktree", "stop", "retry", "codebase", "agent"] {
        assert!(names.contains(&json!(name)), "{names:?}");
    }
    let thread = test.mention("alice", "echo hello");
    test.wait_for_texts(thread, 2);
    let status = test.discord.use_command("alice", thread, json!({ "name": "status" }));
    assert_eq!(test.wait_for_reply(status), "See below.");
    let said = test.wait_for_texts(thread, 3);
    assert!(said[2].contains("app"), "{said:?}");
    let list = json!({ "name": "worktree", "options": [{ "name": "list", "type": 1 }] });
    let list = test.discord.use_command("alice", thread, list);
    assert_eq!(test.wait_for_reply(list), "See below.");
    let said = test.wait_for_texts(thread, 4);
    assert!(said[3].contains("← active"), "{said:?}");
    // In a channel, the channel is the conversation.
    let status = test.discord.use_command("alice", test.general, json!({ "name": "status" }));
    test.wait_for_reply(status);
    test.wait_for_texts(test.general, 1);
    // An outsider is told why nothing happens.
    let refused = test.discord.use_command("mallory", thread, json!({ "name": "status" }));
    assert!(test.wait_for_reply(refused).contains("adapters.discord.allowed_users"));
    test.at_rest();
    assert_eq!(test.discord.bot_texts(thread).len(), 4);
}

#[test]
fn commands_are_registered_once() {
    let mut test = DiscordTest::open();
    wait_for(|| test.discord.count_requests("PUT", "/commands") == 1);
    test.server.terminate();
    test.restart_server();
    wait_for(|| test.discord.count_requests("GET", "/commands") == 2);
    let thread = test.mention("alice", "echo hello");
    test.wait_for_texts(thread, 2);
    assert_eq!(test.discord.count_requests("PUT", "/commands"), 1);
}
