//! The same story on every platform: work begins, goes on, is removed and comes back, by text alone.

use grove_testkit::{TestEngine, TestStore};
use serde_json::Value;

use crate::discord::DiscordTest;
use crate::github::GithubTest;
use crate::slack::{EventInput, SlackTest};
use crate::telegram::TelegramTest;

/// A platform on which alice may direct the bot and mallory may not.
trait TestedPlatform {
    /// Says the first words of a conversation to the bot, and returns the conversation.
    fn begin(&self, person: &str, words: &str) -> String;

    /// Says something to the bot in the conversation.
    fn go_on(&self, conversation: &str, person: &str, words: &str);

    /// Waits for so many messages of the bot in the conversation, and for no more than that.
    fn wait_for_messages(&self, conversation: &str, count: usize) -> Vec<String>;

    fn environments(&self) -> Vec<Value>;
}

/// The issue in which the story plays on GitHub.
const ISSUE: u64 = 42;
/// The channel in which it plays on Slack.
const CHANNEL: &str = "C1";

impl TestedPlatform for GithubTest {
    fn begin(&self, person: &str, words: &str) -> String {
        self.github.next_number(ISSUE);
        self.github.open_issue("alice", "A note", "It is missing.");
        self.go_on("", person, words);
        String::new()
    }

    fn go_on(&self, _: &str, person: &str, words: &str) {
        self.github.comment(person, ISSUE, &format!("@grove {words}"));
    }

    fn wait_for_messages(&self, _: &str, count: usize) -> Vec<String> {
        self.wait_for_replies(ISSUE, count)
    }

    fn environments(&self) -> Vec<Value> {
        self.list_environments(false)
    }
}

impl TestedPlatform for SlackTest {
    fn begin(&self, person: &str, words: &str) -> String {
        self.slack.say(person, CHANNEL, &format!("@grove {words}"))
    }

    fn go_on(&self, thread: &str, person: &str, words: &str) {
        self.slack.reply(person, CHANNEL, thread, words);
    }

    fn wait_for_messages(&self, thread: &str, count: usize) -> Vec<String> {
        self.wait_for_replies(CHANNEL, thread, count)
    }

    fn environments(&self) -> Vec<Value> {
        self.list_environments()
    }
}

impl TestedPlatform for DiscordTest {
    fn begin(&self, person: &str, words: &str) -> String {
        self.mention(person, words).to_string()
    }

    fn go_on(&self, thread: &str, person: &str, words: &str) {
        self.discord.say(person, thread.parse().unwrap(), words);
    }

    fn wait_for_messages(&self, thread: &str, count: usize) -> Vec<String> {
        self.wait_for_texts(thread.parse().unwrap(), count)
    }

    fn environments(&self) -> Vec<Value> {
        self.list_environments()
    }
}

impl TestedPlatform for TelegramTest {
    fn begin(&self, person: &str, words: &str) -> String {
        let chat = self.telegram.private_chat(person);
        self.telegram.say(person, chat, words);
        chat.to_string()
    }

    fn go_on(&self, chat: &str, person: &str, words: &str) {
        // A private chat has one person; another one writes in a chat of their own.
        let chat = if person == "alice" { chat.parse().unwrap() } else { self.telegram.private_chat(person) };
        self.telegram.say(person, chat, words);
    }

    fn wait_for_messages(&self, chat: &str, count: usize) -> Vec<String> {
        self.wait_for_replies(chat.parse().unwrap(), count)
    }

    fn environments(&self) -> Vec<Value> {
        self.list_environments()
    }
}

fn tell_the_story(platform: &dyn TestedPlatform) {
    let conversation = platform.begin("alice", "echo one > note; git branch --show-current");
    let said = platform.wait_for_messages(&conversation, 2);
    let branch = platform.environments()[0]["branch"].as_str().unwrap().to_owned();
    assert!(said[0].starts_with("Working in isolated branch") && said[0].contains(&branch), "{said:?}");
    assert_eq!(said[1], branch);
    let mut count = 2;
    let mut ask = |words: &str| {
        platform.go_on(&conversation, "alice", words);
        count += 1;
        platform.wait_for_messages(&conversation, count).pop().unwrap()
    };
    assert_eq!(ask("cat note"), "one");
    // An outsider starts nothing.
    platform.go_on(&conversation, "mallory", "rm note");
    assert_eq!(ask("cat note"), "one");
    assert!(ask("/status").contains(&branch));
    let refused = ask("/worktree remove");
    assert!(refused.contains("Cannot remove worktree"), "{refused}");
    let removed = ask("/worktree remove --force");
    assert!(removed.contains("Removed the worktree") && removed.contains("30 days"), "{removed}");
    assert_eq!(platform.environments(), Vec::<Value>::new());
    let back = ask("/worktree undo");
    assert!(back.contains(&branch), "{back}");
    assert_eq!(ask("cat note"), "one", "byte for byte");
    assert_eq!(platform.environments().len(), 1);
}

fn sqlite() -> TestStore {
    TestStore::new(TestEngine::Sqlite)
}

#[test]
fn on_github() {
    tell_the_story(&GithubTest::open(sqlite()));
}

#[test]
fn on_slack_by_sockets() {
    tell_the_story(&SlackTest::open(sqlite(), EventInput::Sockets));
}

#[test]
fn on_slack_by_webhook() {
    tell_the_story(&SlackTest::open(sqlite(), EventInput::Webhook));
}

#[test]
fn on_discord() {
    tell_the_story(&DiscordTest::open());
}

#[test]
fn on_telegram() {
    tell_the_story(&TelegramTest::open());
}
