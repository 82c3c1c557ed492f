//! Slack, end to end: people write, and the tests check the replies and git. The server, the client library, the
//! sockets and the webhooks are real; only Slack is ours (`grove_testkit::slack::FakeSlack`).

mod access;
mod buttons;
mod channels;
mod deliveries;
mod doctor;
mod kills;
mod mutations;
mod replies;
mod sockets;
mod story;

use std::fs;
use std::time::{Duration, Instant};

use grove_testkit::slack::{APP_TOKEN, BOT_TOKEN, FakeSlack, SIGNING_SECRET};
use grove_testkit::{Sandbox, TestRepo, TestServer, TestStore};
use serde_json::Value;

use crate::sandbox_on;

/// An agent to which the last line of what it is told is a command.
const LAST_LINE_AGENT: &str = "tail -n 1 | sh";

/// A Slack, a repository, and a server that is connected to both.
pub struct SlackTest {
    pub slack: FakeSlack,
    grove: Sandbox,
    server: TestServer,
}

/// The way in which events arrive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EventInput {
    Sockets,
    Webhook,
}

impl SlackTest {
    pub fn open(store: TestStore, input: EventInput) -> Self {
        Self::with_settings(store, input, LAST_LINE_AGENT, "streaming = \"batch\"")
    }

    /// With this script as its agent, and more settings of `[adapters.slack]`.
    fn with_settings(store: TestStore, input: EventInput, agent: &str, settings: &str) -> Self {
        let slack = FakeSlack::start();
        slack.user_id("alice");
        slack.user_id("mallory");
        let grove = sandbox_on(store, TestRepo::new());
        let credentials = match input {
            EventInput::Sockets => format!("app_token = \"{APP_TOKEN}\""),
            EventInput::Webhook => format!("signing_secret = \"{SIGNING_SECRET}\""),
        };
        let config = format!(
            "[agent]\ndefault = \"mine\"\n[agents.mine]\ncommand = [\"sh\", \"-c\", \"{agent}\"]\n\
             [agents.other]\ncommand = [\"sh\", \"-c\", \"echo other\"]\n\
             [adapters.slack]\nbot_token = \"{BOT_TOKEN}\"\n{credentials}\napi_url = \"{}\"\n\
             allowed_users = [\"UALICE\", \"UBOB\"]\n{settings}\n",
            slack.api_url()
        );
        fs::create_dir_all(grove.grove_home()).unwrap();
        fs::write(grove.grove_home().join("config.toml"), config).unwrap();
        grove.grove(["codebase", "add", "--json"]).assert_success();
        let server = TestServer::start(&grove);
        if input == EventInput::Webhook {
            slack.use_webhook(&format!("{}/webhooks/slack", server.address));
        }
        Self { slack, grove, server }
    }

    /// Starts the server again that was ended.
    fn restart_server(&mut self) {
        self.server = TestServer::start(&self.grove);
    }

    fn bot_texts(&self, channel: &str, thread: &str) -> Vec<String> {
        self.slack.bot_messages(channel, thread).into_iter().map(|message| message.text).collect()
    }

    /// Waits for so many messages of the bot in a thread, and for no more than that.
    #[track_caller]
    pub fn wait_for_replies(&self, channel: &str, thread: &str, count: usize) -> Vec<String> {
        let began = Instant::now();
        loop {
            let replies = self.bot_texts(channel, thread);
            if replies.len() >= count && self.is_at_rest() {
                let replies = self.bot_texts(channel, thread);
                assert_eq!(replies.len(), count, "{replies:#?}");
                return replies;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{replies:#?} {:#?}", self.server.take_log_lines());
            std::thread::sleep(grove_testkit::poll_interval(began));
        }
    }

    /// Waits until everything that Slack sent is handled.
    #[track_caller]
    fn at_rest(&self) {
        grove_testkit::wait_for(|| self.is_at_rest());
    }

    fn is_at_rest(&self) -> bool {
        // In the order in which a message goes, so that none is missed on its way.
        if self.slack.unacknowledged_count() > 0 {
            return false;
        }
        let status = self.server.call_api("GET", "/api/status", None).json();
        let queue = &status["queue"];
        status["adapters"]["slack"]["waiting"] == 0 && queue["running"] == 0 && queue["waiting"] == 0
    }

    fn adapter_state(&self) -> (String, String) {
        let status = self.server.call_api("GET", "/api/status", None).json();
        let text = |name: &str| status["adapters"]["slack"][name].as_str().unwrap_or_default().to_owned();
        (text("state"), text("detail"))
    }

    pub fn list_environments(&self) -> Vec<Value> {
        self.grove.grove(["worktree", "list", "--json"]).assert_success().json().as_array().expect("a list").clone()
    }
}
