//! Telegram, end to end: people write in chats, and the tests check the replies and the disk. The client
//! library and the protocol are the real ones; only Telegram is ours (`grove_testkit::telegram::FakeTelegram`).

mod buttons;
mod chats;
mod context;
mod doctor;
mod drops;
mod kills;
mod replies;
mod updates;
mod webhook;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use grove_testkit::telegram::FakeTelegram;
use grove_testkit::{Sandbox, TestEngine, TestRepo, TestServer, TestStore, poll_interval};
use serde_json::Value;

use crate::sandbox_on;

/// An agent to which the last line of what it is told is a command.
const LAST_LINE_AGENT: &str = "tail -n 1 | sh";

/// A Telegram, a repository, and a server that is connected to both.
pub struct TelegramTest {
    pub telegram: FakeTelegram,
    grove: Sandbox,
    server: TestServer,
}

impl TelegramTest {
    pub fn open() -> Self {
        Self::with_settings(TestStore::new(TestEngine::Sqlite), "")
    }

    /// With more settings of `[adapters.telegram]`.
    fn with_settings(store: TestStore, settings: &str) -> Self {
        Self::with_agent(store, LAST_LINE_AGENT, settings)
    }

    /// With this script as its agent. Alice may use the bot.
    fn with_agent(store: TestStore, agent: &str, settings: &str) -> Self {
        let telegram = FakeTelegram::start();
        let grove = sandbox_on(store, TestRepo::new());
        write_config(&grove, &telegram, agent, &format!("allowed_users = [\"alice\"]\n{settings}"));
        grove.grove(["codebase", "add", "--json"]).assert_success();
        let server = TestServer::start(&grove);
        Self { telegram, grove, server }
    }

    fn restart_server(&mut self) {
        self.server = TestServer::start(&self.grove);
    }

    /// The texts of the bot in a chat, as people see them.
    fn replies(&self, chat: i64) -> Vec<String> {
        self.telegram.bot_messages(chat).into_iter().map(|message| message.text).collect()
    }

    fn topic_replies(&self, chat: i64, topic: i32) -> Vec<String> {
        self.telegram.topic_messages(chat, topic).into_iter().map(|message| message.text).collect()
    }

    /// Waits for so many replies, and for no more than that.
    #[track_caller]
    pub fn wait_for_replies(&self, chat: i64, count: usize) -> Vec<String> {
        self.wait_for_count(count, || self.replies(chat))
    }

    #[track_caller]
    fn wait_for_topic_replies(&self, chat: i64, topic: i32, count: usize) -> Vec<String> {
        self.wait_for_count(count, || self.topic_replies(chat, topic))
    }

    #[track_caller]
    fn wait_for_count(&self, count: usize, replies: impl Fn() -> Vec<String>) -> Vec<String> {
        let began = Instant::now();
        loop {
            if replies().len() >= count && self.is_at_rest() {
                assert_eq!(replies().len(), count, "{:#?}", replies());
                return replies();
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{:#?} {:#?}", replies(), self.server.take_log_lines());
            std::thread::sleep(poll_interval(began));
        }
    }

    /// Waits until everything that people did is worked off.
    #[track_caller]
    fn at_rest(&self) {
        let began = Instant::now();
        while !self.is_at_rest() {
            assert!(began.elapsed() < Duration::from_secs(60), "{:#?}", self.server.take_log_lines());
            std::thread::sleep(poll_interval(began));
        }
    }

    fn is_at_rest(&self) -> bool {
        // In the order in which a message goes, so that none is missed on its way.
        if !self.telegram.pending_updates().is_empty() {
            return false;
        }
        let status = self.server.call_api("GET", "/api/status", None).json();
        let queue = &status["queue"];
        status["adapters"]["telegram"]["waiting"] == 0 && queue["running"] == 0 && queue["waiting"] == 0
    }

    fn adapter_state(&self) -> Value {
        self.grove.grove(["status", "--json"]).assert_success().json()["adapters"]["telegram"].clone()
    }

    pub fn list_environments(&self) -> Vec<Value> {
        self.server.call_api("GET", "/api/worktrees", None).json().as_array().expect("a list").clone()
    }

    fn worktree_of(&self, conversation: &str) -> PathBuf {
        let all = self.list_environments();
        let uses = |environment: &&Value| {
            environment["conversations"].as_array().is_some_and(|ids| ids.iter().any(|id| id == conversation))
        };
        let found = all.iter().find(uses).unwrap_or_else(|| panic!("{conversation}: {all:#?}"));
        PathBuf::from(found["path"].as_str().expect("a path"))
    }
}

fn write_config(grove: &Sandbox, telegram: &FakeTelegram, agent: &str, settings: &str) {
    let config = format!(
        "[agent]\ndefault = \"mine\"\n[agents.mine]\ncommand = [\"sh\", \"-c\", \"{agent}\"]\n\
         [agents.other]\ncommand = [\"sh\", \"-c\", \"echo the other one\"]\n\
         [adapters.telegram]\ntoken = \"{}\"\napi_url = \"{}\"\n{settings}\n",
        telegram.token(),
        telegram.api_url()
    );
    fs::create_dir_all(grove.grove_home()).unwrap();
    let (new, path) = (grove.grove_home().join("config.new"), grove.grove_home().join("config.toml"));
    fs::write(&new, config).unwrap();
    fs::rename(new, path).unwrap();
}
