//! One piece of work across platforms: begun in Slack, continued in an issue, finished in a pull request.

use std::fs;
use std::time::{Duration, Instant};

use grove_testkit::github::{BOT_LOGIN, FakeGithub};
use grove_testkit::slack::{APP_TOKEN, BOT_TOKEN, FakeSlack};
use grove_testkit::{Sandbox, TestRepo, TestServer, TestStore, both_engines};
use serde_json::Value;

use crate::sandbox_on;

const WEBHOOK_SECRET: &str = "a secret of the webhook";

/// A server that is connected to a Slack and a GitHub.
struct TwoPlatforms {
    slack: FakeSlack,
    github: FakeGithub,
    grove: Sandbox,
    server: TestServer,
}

impl TwoPlatforms {
    fn connect(store: TestStore) -> Self {
        let (slack, github) = (FakeSlack::start(), FakeGithub::start("octo/shop"));
        slack.user_id("alice");
        github.add_user("alice", "write");
        let grove = sandbox_on(store, TestRepo::new());
        let bare = github.bare_path().display().to_string();
        grove.repo.git(&["remote", "add", "origin", &bare]);
        grove.repo.git(&["push", "--quiet", "--force", "origin", "main"]);
        grove.repo.git(&["fetch", "--quiet", "origin"]);
        grove.repo.git(&["remote", "set-head", "origin", "main"]);
        // The last line of what the agent is told is a command.
        let config = format!(
            "[agent]\ndefault = \"mine\"\n[agents.mine]\ncommand = [\"sh\", \"-c\", \"tail -n 1 | sh\"]\n\
             [adapters.github]\ntoken = \"{}\"\napi_url = \"{}\"\nwebhook_secret = \"{WEBHOOK_SECRET}\"\nstreaming = \"batch\"\n\
             [adapters.slack]\nbot_token = \"{BOT_TOKEN}\"\napp_token = \"{APP_TOKEN}\"\napi_url = \"{}\"\n\
             allowed_users = [\"UALICE\"]\nstreaming = \"batch\"\n",
            github.create_token(BOT_LOGIN),
            github.api_url(),
            slack.api_url(),
        );
        fs::create_dir_all(grove.grove_home()).unwrap();
        fs::write(grove.grove_home().join("config.toml"), config).unwrap();
        grove.grove(["codebase", "add", "--json"]).assert_success();
        let server = TestServer::start(&grove);
        github.add_webhook(&format!("{}/webhooks/github", server.address), WEBHOOK_SECRET);
        Self { slack, github, grove, server }
    }

    fn is_at_rest(&self) -> bool {
        // In the order in which a message goes, so that none is missed on its way.
        if self.slack.unacknowledged_count() > 0 {
            return false;
        }
        let status = self.server.call_api("GET", "/api/status", None).json();
        let adapters = &status["adapters"];
        [&adapters["slack"]["waiting"], &adapters["github"]["waiting"]].into_iter().all(|count| *count == 0)
            && [&status["queue"]["running"], &status["queue"]["waiting"]].into_iter().all(|count| *count == 0)
    }

    fn in_slack(&self, thread: &str) -> Vec<String> {
        self.slack.bot_messages("C1", thread).into_iter().map(|message| message.text).collect()
    }

    fn on_github(&self, number: u64) -> Vec<String> {
        let ours = self.github.comments(number).into_iter().filter(|said| said.author == BOT_LOGIN);
        ours.filter_map(|said| Some(said.body.split_once("\n\n<!-- grove ")?.0.to_owned())).collect()
    }

    /// Waits until everything is handled and there are so many messages, and no more.
    #[track_caller]
    fn wait_for(&self, messages: impl Fn() -> Vec<String>, count: usize) -> Vec<String> {
        let began = Instant::now();
        loop {
            if messages().len() >= count && self.is_at_rest() {
                let messages = messages();
                assert_eq!(messages.len(), count, "{messages:#?}");
                return messages;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{:#?} {:#?}", messages(), self.server.take_log_lines());
            std::thread::sleep(grove_testkit::poll_interval(began));
        }
    }

    fn list_environments(&self) -> Vec<Value> {
        self.grove.grove(["worktree", "list", "--json"]).assert_success().json().as_array().unwrap().clone()
    }
}

both_engines! {
    fn work_goes_from_slack_through_an_issue_to_a_merged_pull_request(store: TestStore) {
        let two = TwoPlatforms::connect(store);
        // It begins in a thread of Slack, in a worktree of its own.
        let thread = two.slack.say("alice", "C1", "@grove git branch --show-current");
        let said = two.wait_for(|| two.in_slack(&thread), 2);
        assert!(said[0].starts_with("Working in isolated branch `thread-") && said[1].starts_with("thread-"), "{said:?}");

        // An issue is another work.
        two.github.next_number(42);
        two.github.open_issue("alice", "Login fails", "It says 500.");
        two.github.comment("alice", 42, "@grove echo one > fix.txt; git add .; git commit -qm One; git branch --show-current");
        let said = two.wait_for(|| two.on_github(42), 2);
        assert_eq!(said, ["Working in isolated branch `issue-42`", "issue-42"]);
        assert_eq!(two.list_environments().len(), 2);

        // The thread goes on in the issue's worktree; both see each other's work, and only their own answers.
        two.slack.reply("alice", "C1", &thread, "@grove /worktree link issue-42");
        assert_eq!(two.wait_for(|| two.in_slack(&thread), 3)[2], "Linked to worktree `issue-42`");
        two.slack.reply("alice", "C1", &thread, "echo two >> fix.txt; git commit -qam Two; cat fix.txt");
        assert_eq!(two.wait_for(|| two.in_slack(&thread), 4)[3], "one\ntwo");
        two.github.comment("alice", 42, "@grove git log --format=%s -2");
        assert_eq!(two.wait_for(|| two.on_github(42), 3)[2], "Two\nOne");

        // Messages of both at once take turns in the one worktree.
        for number in 0..5 {
            two.slack.reply("alice", "C1", &thread, &format!("echo s{number} >> turns; sleep 0.1; tail -n 1 turns"));
            two.github.comment("alice", 42, &format!("@grove echo g{number} >> turns; sleep 0.1; tail -n 1 turns"));
        }
        let (slack, github) = (two.wait_for(|| two.in_slack(&thread), 9), two.wait_for(|| two.on_github(42), 8));
        assert_eq!(slack[4..], ["s0", "s1", "s2", "s3", "s4"], "in order, and nothing in between");
        assert_eq!(github[3..], ["g0", "g1", "g2", "g3", "g4"]);

        // The pull request is opened from Slack, and merged on GitHub.
        two.slack.reply("alice", "C1", &thread, "rm turns; git status --short");
        two.wait_for(|| two.in_slack(&thread), 10);
        two.github.next_number(99);
        two.slack.reply("alice", "C1", &thread, "/push");
        let pushed = two.wait_for(|| two.in_slack(&thread), 11).pop().unwrap();
        assert!(pushed.contains("issue-42"), "{pushed}");
        let pull = two.github.open_pull("alice", "issue-42", "Fix the login", "Fixes #42\n\n@grove cat fix.txt");
        let said = two.wait_for(|| two.on_github(pull), 3);
        assert_eq!((said[0].as_str(), said[2].as_str()), ("Reusing worktree from issue #42", "one\ntwo"));
        two.github.merge("alice", pull);
        two.github.close("alice", 42);
        grove_testkit::wait_for(|| two.is_at_rest());
        // Slack still works there; a person cleans up, and the other worktree, in which nothing was done, stays.
        let branches = |two: &TwoPlatforms| two.list_environments().iter().map(|e| e["branch"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        assert!(branches(&two).contains(&"issue-42".to_owned()));
        two.slack.reply("alice", "C1", &thread, "/worktree cleanup merged");
        let cleaned = two.wait_for(|| two.in_slack(&thread), 12).pop().unwrap();
        assert!(cleaned.contains("issue-42"), "{cleaned}");
        assert!(!branches(&two).contains(&"issue-42".to_owned()), "{:?}", branches(&two));

        // Every conversation was told once, and nothing more.
        assert_eq!((two.on_github(42).len(), two.on_github(pull).len()), (8, 3));
        two.slack.reply("alice", "C1", &thread, "git branch --show-current");
        let said = two.wait_for(|| two.in_slack(&thread), 15);
        assert_eq!(said[12], "The worktree `issue-42` was removed meanwhile. `/worktree undo issue-42` brings it back.");
        assert!(said[14].starts_with("thread-"), "{said:?}");
    }
}
