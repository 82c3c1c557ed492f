//! GitHub, end to end: somebody comments, somebody looks at the replies and at git. The client library
//! and the webhooks are the real ones; only GitHub is ours (`grove_testkit::FakeGithub`).

mod asking;
mod clone;
mod deliveries;
mod doctor;
mod editors;
mod kills;
mod mutations;
mod outsiders;
mod push;
mod records;
mod replies;
mod story;
mod world;

use std::fs;
use std::time::{Duration, Instant};

use grove_testkit::github::{BOT, FakeGithub};
use grove_testkit::{Sandbox, TestRepo, TestServer, TestStore};
use serde_json::Value;

use crate::on;

const SECRET: &str = "a secret of the webhook";

/// A repository on GitHub, a clone of it, and a server that is told what happens there.
struct Office {
    github: FakeGithub,
    grove: Sandbox,
    server: TestServer,
    /// GitHub is asked instead.
    polls: bool,
}

/// An agent to which the last line of what it is told is a command.
const OBEDIENT: &str = "tail -n 1 | sh";

/// Asks every second, about a repository whose name somebody wrote in another way.
const POLL: &str = "mode = \"poll\"\npoll_seconds = 1\nrepos = [\"Octo/Shop\"]";

impl Office {
    fn open(store: TestStore) -> Self {
        Self::with(store, "")
    }

    /// With more settings of `[adapters.github]`.
    fn with(store: TestStore, settings: &str) -> Self {
        Self::of(store, OBEDIENT, settings)
    }

    /// With this script as its agent.
    fn of(store: TestStore, agent: &str, settings: &str) -> Self {
        Self::set_up(store, agent, &format!("webhook_secret = \"{SECRET}\"\n{settings}"), false)
    }

    /// Without an address for webhooks.
    fn polling(store: TestStore) -> Self {
        Self::set_up(store, OBEDIENT, POLL, true)
    }

    fn set_up(store: TestStore, agent: &str, settings: &str, polls: bool) -> Self {
        let github = FakeGithub::start("octo/shop");
        github.user("alice", "write");
        github.outsider("mallory");
        let grove = on(store, TestRepo::new());
        let bare = github.bare().display().to_string();
        grove.repo.git(&["remote", "add", "origin", &bare]);
        grove.repo.git(&["push", "--quiet", "--force", "origin", "main"]);
        grove.repo.git(&["fetch", "--quiet", "origin"]);
        grove.repo.git(&["remote", "set-head", "origin", "main"]);
        let config = format!(
            "[agent]\ndefault = \"mine\"\n[agents.mine]\ncommand = [\"sh\", \"-c\", \"{agent}\"]\n\
             [adapters.github]\ntoken = \"{}\"\napi_url = \"{}\"\n{settings}\n",
            github.token(BOT),
            github.api_url()
        );
        fs::create_dir_all(grove.grove_home()).unwrap();
        fs::write(grove.grove_home().join("config.toml"), config).unwrap();
        grove.grove(["codebase", "add", "--json"]).ok();
        let server = TestServer::start(&grove);
        if !polls {
            github.webhook(&format!("{}/webhooks/github", server.address), SECRET);
        }
        Self { github, grove, server, polls }
    }

    /// Starts the server again that was ended; it is told what happens from then on.
    fn restart(&mut self) {
        let before = self.server.address.clone();
        self.server = TestServer::start(&self.grove);
        let hook = |address: &str| format!("{address}/webhooks/github");
        self.github.move_webhook(&hook(&before), &hook(&self.server.address));
    }

    /// What the bot has said, without its marker.
    fn replies(&self, number: u64) -> Vec<String> {
        let comments = self.github.comments(number).into_iter().filter(|said| said.author == BOT);
        comments.filter_map(|said| Some(said.body.split_once("\n\n<!-- grove ")?.0.to_owned())).collect()
    }

    /// Waits for so many replies, and for no more than that.
    #[track_caller]
    fn answered(&self, number: u64, count: usize) -> Vec<String> {
        let began = Instant::now();
        loop {
            let replies = self.replies(number);
            if replies.len() >= count && self.is_at_rest() {
                let replies = self.replies(number);
                assert_eq!(replies.len(), count, "{replies:#?}");
                return replies;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{replies:#?} {:#?}", self.server.logged());
            std::thread::sleep(Duration::from_millis(15));
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
        let rounds = || self.github.requests().iter().filter(|asked| asked.path.contains("/issues?state=all")).count();
        let before = rounds();
        grove_testkit::wait_for(|| rounds() >= before + 2);
    }

    fn is_at_rest(&self) -> bool {
        let status = self.server.api("GET", "/api/status", None).json();
        let queue = &status["queue"];
        status["adapters"]["github"]["waiting"] == 0 && queue["running"] == 0 && queue["waiting"] == 0
    }

    fn environments(&self, all: bool) -> Vec<Value> {
        let args: &[&str] =
            if all { &["worktree", "list", "--all", "--json"] } else { &["worktree", "list", "--json"] };
        self.grove.grove(args).ok().json().as_array().expect("a list").clone()
    }
}
