//! GitHub, end to end: users comment, and the tests check the replies and git. The client library
//! and the webhooks are the real ones; only GitHub is ours (`grove_testkit::github::FakeGithub`).

mod asking;
mod clone;
mod deliveries;
mod doctor;
mod editors;
mod harness;
mod kills;
mod mutations;
mod outsiders;
mod push;
mod records;
mod replies;
mod story;

use std::fs;
use std::time::{Duration, Instant};

use grove_testkit::github::{BOT_LOGIN, FakeGithub};
use grove_testkit::{Sandbox, TestRepo, TestServer, TestStore};
use serde_json::Value;

use crate::sandbox_on;

const WEBHOOK_SECRET: &str = "a secret of the webhook";

/// A repository on GitHub, a clone of it, and a server that is told what happens there.
pub struct GithubTest {
    pub github: FakeGithub,
    grove: Sandbox,
    server: TestServer,
    /// GitHub is asked instead.
    polls: bool,
}

/// An agent to which the last line of what it is told is a command.
const LAST_LINE_AGENT: &str = "tail -n 1 | sh";

/// Polls every second, for a repository whose name the settings write with other capitals.
const POLL_SETTINGS: &str = "mode = \"poll\"\npoll_seconds = 1\nrepos = [\"Octo/Shop\"]";

impl GithubTest {
    pub fn open(store: TestStore) -> Self {
        Self::with_settings(store, "")
    }

    /// With more settings of `[adapters.github]`.
    fn with_settings(store: TestStore, settings: &str) -> Self {
        Self::with_agent(store, LAST_LINE_AGENT, settings)
    }

    /// With this script as its agent.
    fn with_agent(store: TestStore, agent: &str, settings: &str) -> Self {
        Self::set_up(store, agent, &format!("webhook_secret = \"{WEBHOOK_SECRET}\"\n{settings}"), false)
    }

    /// Without an address for webhooks.
    fn with_polling(store: TestStore) -> Self {
        Self::set_up(store, LAST_LINE_AGENT, POLL_SETTINGS, true)
    }

    fn set_up(store: TestStore, agent: &str, settings: &str, polls: bool) -> Self {
        let github = FakeGithub::start("octo/shop");
        github.add_user("alice", "write");
        github.add_outsider("mallory");
        let grove = sandbox_on(store, TestRepo::new());
        let bare = github.bare_path().display().to_string();
        grove.repo.git(&["remote", "add", "origin", &bare]);
        grove.repo.git(&["push", "--quiet", "--force", "origin", "main"]);
        grove.repo.git(&["fetch", "--quiet", "origin"]);
        grove.repo.git(&["remote", "set-head", "origin", "main"]);
        let config = format!(
            "[agent]\ndefault = \"mine\"\n[agents.mine]\ncommand = [\"sh\", \"-c\", \"{agent}\"]\n\
             [adapters.github]\ntoken = \"{}\"\napi_url = \"{}\"\n{settings}\n",
            github.create_token(BOT_LOGIN),
            github.api_url()
        );
        fs::create_dir_all(grove.grove_home()).unwrap();
        fs::write(grove.grove_home().join("config.toml"), config).unwrap();
        grove.grove(["codebase", "add", "--json"]).assert_success();
        let server = TestServer::start(&grove);
        if !polls {
            github.add_webhook(&format!("{}/webhooks/github", server.address), WEBHOOK_SECRET);
        }
        Self { github, grove, server, polls }
    }

    /// Starts the server again that was ended; it is told what happens from then on.
    fn restart_server(&mut self) {
        let before = self.server.address.clone();
        self.server = TestServer::start(&self.grove);
        let hook = |address: &str| format!("{address}/webhooks/github");
        self.github.move_webhook(&hook(&before), &hook(&self.server.address));
    }

    /// What the bot has said, without its marker.
    fn bot_replies(&self, number: u64) -> Vec<String> {
        let comments = self.github.comments(number).into_iter().filter(|said| said.author == BOT_LOGIN);
        comments.filter_map(|said| Some(said.body.split_once("\n\n<!-- grove ")?.0.to_owned())).collect()
    }

    /// Waits for so many replies, and for no more than that.
    #[track_caller]
    pub fn wait_for_replies(&self, number: u64, count: usize) -> Vec<String> {
        let began = Instant::now();
        loop {
            let replies = self.bot_replies(number);
            if replies.len() >= count && self.is_at_rest() {
                let replies = self.bot_replies(number);
                assert_eq!(replies.len(), count, "{replies:#?}");
                return replies;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{replies:#?} {:#?}", self.server.take_log_lines());
            std::thread::sleep(grove_testkit::poll_interval(began));
        }
    }

    /// Waits until everything that GitHub told is worked off.
    #[track_caller]
    fn at_rest(&self) {
        if self.polls {
            self.asked_again();
        }
        grove_testkit::wait_for(|| self.is_at_rest());
    }

    /// Waits until GitHub was asked about everything, from now on.
    #[track_caller]
    fn asked_again(&self) {
        // The first list of a round.
        let rounds =
            || self.github.received_requests().iter().filter(|asked| asked.path.contains("/issues?state=all")).count();
        let before = rounds();
        grove_testkit::wait_for(|| rounds() >= before + 2);
    }

    fn is_at_rest(&self) -> bool {
        let status = self.server.call_api("GET", "/api/status", None).json();
        let queue = &status["queue"];
        status["adapters"]["github"]["waiting"] == 0 && queue["running"] == 0 && queue["waiting"] == 0
    }

    pub fn list_environments(&self, all: bool) -> Vec<Value> {
        let args: &[&str] =
            if all { &["worktree", "list", "--all", "--json"] } else { &["worktree", "list", "--json"] };
        self.grove.grove(args).assert_success().json().as_array().expect("a list").clone()
    }
}
