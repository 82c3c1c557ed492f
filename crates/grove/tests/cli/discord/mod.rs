//! Discord, end to end: people write, press buttons and use commands, and the tests check the replies and
//! git. The client library and its gateway are the real ones; only Discord is ours
//! (`grove_testkit::discord::FakeDiscord`).

mod buttons;
mod doctor;
mod gateway;
mod kills;
mod mutations;
mod replies;
mod story;

use std::fs;
use std::time::{Duration, Instant};

use grove_testkit::discord::{BOT_TOKEN, FakeDiscord};
use grove_testkit::{Sandbox, TestEngine, TestRepo, TestServer, TestStore, wait_for};
use serde_json::Value;

use crate::sandbox_on;

/// A server on Discord with alice, who may direct the bot, and mallory, who may not.
pub struct DiscordTest {
    pub discord: FakeDiscord,
    grove: Sandbox,
    server: TestServer,
    general: u64,
}

/// An agent to which the last line of what it is told is a command.
const LAST_LINE_AGENT: &str = "tail -n 1 | sh";

impl DiscordTest {
    pub fn open() -> Self {
        Self::with_agent(LAST_LINE_AGENT)
    }

    fn with_agent(agent: &str) -> Self {
        Self::on_store(TestStore::new(TestEngine::Sqlite), agent)
    }

    fn on_store(store: TestStore, agent: &str) -> Self {
        Self::set_up(store, agent, |_| {})
    }

    /// `prepare` changes Discord before the server starts.
    fn set_up(store: TestStore, agent: &str, prepare: impl FnOnce(&FakeDiscord)) -> Self {
        let discord = FakeDiscord::start();
        discord.add_user("alice");
        discord.add_user("mallory");
        let grove = sandbox_on(store, TestRepo::new());
        fs::create_dir_all(grove.grove_home()).unwrap();
        fs::write(grove.grove_home().join("config.toml"), discord_config(&discord, agent)).unwrap();
        grove.grove(["codebase", "add", "--name", "app", "--json"]).assert_success();
        prepare(&discord);
        let server = TestServer::start(&grove);
        let test = Self { general: discord.channel("general"), discord, grove, server };
        test.wait_for_state("connected");
        test
    }

    fn status(&self) -> Value {
        self.server.call_api("GET", "/api/status", None).json()
    }

    #[track_caller]
    fn wait_for_state(&self, state: &str) {
        let began = Instant::now();
        while self.status()["adapters"]["discord"]["state"] != state {
            let log = || self.server.take_log_lines();
            assert!(began.elapsed() < Duration::from_secs(20), "{} {:#?}", self.status()["adapters"], log());
            std::thread::sleep(grove_testkit::poll_interval(began));
        }
    }

    /// Mentions the bot in `general`, and returns the id of the message, which is that of its thread.
    pub fn mention(&self, person: &str, words: &str) -> u64 {
        self.discord.say(person, self.general, &format!("{} {words}", self.discord.mention()))
    }

    /// Waits for so many messages of the bot in a channel, and for no more than that.
    #[track_caller]
    pub fn wait_for_texts(&self, channel: u64, count: usize) -> Vec<String> {
        let began = Instant::now();
        loop {
            let texts = self.discord.bot_texts(channel);
            if texts.len() >= count && self.is_at_rest() {
                let texts = self.discord.bot_texts(channel);
                assert_eq!(texts.len(), count, "{texts:#?}");
                return texts;
            }
            let log = || self.server.take_log_lines();
            assert!(began.elapsed() < Duration::from_secs(30), "{texts:#?} {} {:#?}", self.status(), log());
            std::thread::sleep(grove_testkit::poll_interval(began));
        }
    }

    /// Waits until everything that Discord told is worked off.
    #[track_caller]
    fn at_rest(&self) {
        let heard = self.discord.is_connected();
        assert!(heard || self.status()["adapters"]["discord"].is_object());
        wait_for(|| self.is_at_rest());
    }

    fn is_at_rest(&self) -> bool {
        let status = self.status();
        let queue = &status["queue"];
        status["adapters"]["discord"]["waiting"] == 0 && queue["running"] == 0 && queue["waiting"] == 0
    }

    fn restart_server(&mut self) {
        self.server = TestServer::start(&self.grove);
    }

    pub fn list_environments(&self) -> Vec<Value> {
        self.grove.grove(["worktree", "list", "--json"]).assert_success().json().as_array().expect("a list").clone()
    }
}

fn discord_config(discord: &FakeDiscord, agent: &str) -> String {
    format!(
        "[agent]\ndefault = \"mine\"\n[agents.mine]\ncommand = [\"sh\", \"-c\", \"{agent}\"]\n\
         [adapters.discord]\ntoken = \"{BOT_TOKEN}\"\napi_url = \"{}\"\ngateway_url = \"{}\"\n\
         allowed_users = [\"alice\"]\n",
        discord.api_url(),
        discord.gateway_url()
    )
}
