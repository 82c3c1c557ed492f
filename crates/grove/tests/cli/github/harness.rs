//! A GitHub whose repository is not here yet: real git goes there over HTTP, with a token.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use grove_testkit::github::{BOT_LOGIN, FakeGithub};
use grove_testkit::{Sandbox, TestRepo, TestServer, first_git, poll_interval};

use crate::new_sandbox;

const STORY_WEBHOOK_SECRET: &str = "the webhook's secret";

/// A GitHub, and a server that is connected to it.
pub struct GithubStoryTest {
    pub github: FakeGithub,
    pub grove: Sandbox,
    pub server: TestServer,
    pub token: String,
}

impl GithubStoryTest {
    /// `octo/shop`, where alice may write; `settings` are lines of the config's beginning.
    pub fn start(settings: &str) -> Self {
        Self::set_up(settings, |github, _| {
            let token = github.create_token(BOT_LOGIN);
            (format!("token = \"{token}\""), token)
        })
    }

    /// The same, but we are an App.
    pub fn of_app() -> Self {
        Self::set_up("", |github, grove| {
            github.install_app(77, "grove-dev");
            let key = grove.repo.temp_dir().join("key.pem");
            fs::write(&key, FakeGithub::APP_PRIVATE_KEY).unwrap();
            // How all of its tokens begin.
            (format!("app_id = 77\nprivate_key_file = \"{}\"", key.display()), "ghs_fake".to_owned())
        })
    }

    /// `credentials` gives lines of `[adapters.github]`, and what no file may have.
    fn set_up(settings: &str, credentials: impl FnOnce(&FakeGithub, &Sandbox) -> (String, String)) -> Self {
        let github = FakeGithub::start("octo/shop");
        github.add_user("alice", "write");
        let grove = new_sandbox(TestRepo::new());
        fs::create_dir_all(grove.grove_home()).unwrap();
        let (credentials, token) = credentials(&github, &grove);
        // The agent does what the last line of its prompt says.
        let agent =
            write_program(&grove.repo.temp_dir().join("agent"), "tail -n 1 > \"$TMPDIR/said\"; sh \"$TMPDIR/said\"");
        let config = format!(
            "{settings}\n[agent]\ndefault = \"worker\"\n[agents.worker]\nkind = \"command\"\ncommand = [\"{}\"]\n\
             env = {{ TMPDIR = \"{}\" }}\n[adapters.github]\n{credentials}\nwebhook_secret = \"{STORY_WEBHOOK_SECRET}\"\n\
             api_url = \"{}\"\nrepos = [\"Octo/Shop\"]\nstreaming = \"batch\"\n",
            agent.display(),
            grove.repo.temp_dir().display(),
            github.api_url(),
        );
        fs::write(grove.grove_home().join("config.toml"), config).unwrap();
        // A git that writes down what it was called with.
        let bin = grove.repo.temp_dir().join("bin");
        let script = format!(
            "printf '%s\\n' \"$*\" >> {}; exec {} \"$@\"",
            git_log_path(&grove).display(),
            first_git().display()
        );
        write_program(&bin.join("git"), &script);
        let server = start_server(&grove);
        github.add_webhook(&format!("{}/webhooks/github", server.address), STORY_WEBHOOK_SECRET);
        Self { github, grove, server, token }
    }

    /// The server is killed, and started again at another address.
    pub fn restart_server(&mut self) {
        self.server.kill();
        self.server = start_server(&self.grove);
        self.github.without_webhooks();
        self.github.add_webhook(&format!("{}/webhooks/github", self.server.address), STORY_WEBHOOK_SECRET);
    }

    /// Waits until everything that GitHub told is worked off.
    #[track_caller]
    pub fn at_rest(&self) {
        let status = || self.server.call_api("GET", "/api/status", None).json();
        let rests = |status: serde_json::Value| {
            let queue = &status["queue"];
            status["adapters"]["github"]["waiting"] == 0 && queue["running"] == 0 && queue["waiting"] == 0
        };
        self.wait_until(|| rests(status()), || status().to_string());
    }

    /// What the bot said in a thread, without the hidden lines.
    pub fn bot_replies(&self, number: u64) -> Vec<String> {
        let ours = self.github.comments(number).into_iter().filter(|comment| comment.author != "alice");
        ours.map(|comment| comment.body.split("<!--").next().unwrap_or_default().trim().to_owned()).collect()
    }

    /// Says something to the bot and gives what it said then, up to the first that is `enough`.
    #[track_caller]
    pub fn ask_until(&self, number: u64, words: &str, enough: impl Fn(&str) -> bool) -> Vec<String> {
        let before = self.bot_replies(number).len();
        self.github.comment("alice", number, &format!("@grove {words}"));
        self.wait_until(
            || self.bot_replies(number)[before..].iter().any(|said| enough(said)),
            || format!("{:#?}", self.bot_replies(number)),
        );
        self.bot_replies(number).split_off(before)
    }

    /// The one answer to a command.
    #[track_caller]
    pub fn ask_bot(&self, number: u64, words: &str) -> String {
        self.ask_until(number, words, |_| true).remove(0)
    }

    /// Lets the agent commit a file, in the worktree of an issue.
    #[track_caller]
    pub fn commit_file(&self, number: u64, file: &str) -> Vec<String> {
        let identity = "-c user.name=agent -c user.email=agent@example.com";
        let words =
            format!("echo {file} > {file} && git add {file} && git {identity} commit -q -m 'Add {file}' && echo done");
        self.ask_until(number, &words, |said| said == "done")
    }

    #[track_caller]
    pub fn wait_until(&self, true_soon: impl Fn() -> bool, what: impl Fn() -> String) {
        let began = Instant::now();
        while !true_soon() {
            assert!(began.elapsed() < Duration::from_secs(60), "{} {:#?}", what(), self.server.take_log_lines());
            std::thread::sleep(poll_interval(began));
        }
    }

    pub fn workspace_path(&self) -> PathBuf {
        self.grove.grove_home().join("workspaces/octo/shop")
    }

    /// How git was called so far.
    pub fn git_calls(&self) -> String {
        fs::read_to_string(git_log_path(&self.grove)).unwrap_or_default()
    }

    /// The environments, also those that are gone.
    pub fn list_environments(&self) -> Vec<serde_json::Value> {
        let list =
            self.grove.grove(["worktree", "list", "--all", "--json", "--codebase", "shop"]).assert_success().json();
        list.as_array().expect("a list").clone()
    }

    /// The commands that clone to the workspace at the moment.
    pub fn clones_running(&self) -> Vec<String> {
        let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("cmdline"));
        let commands = all.map(|file| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).replace('\0', " "));
        let place = self.workspace_path().with_file_name(".shop.cloning-").display().to_string();
        commands.filter(|command| command.contains(&place)).collect()
    }

    /// Lists the files beside a clone, without its lock.
    pub fn beside_the_workspace(&self) -> Vec<String> {
        let folder = fs::read_dir(self.workspace_path().parent().unwrap()).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "shop" && name != ".shop.lock").collect()
    }

    /// The token is in no file but the one that it was written into, and in no argument.
    #[track_caller]
    pub fn assert_secret_kept(&self) {
        assert!(!self.git_calls().contains(&self.token), "an argument of git");
        let mut open = vec![self.grove.repo.temp_dir()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file() && path != self.grove.grove_home().join("config.toml") {
                    let bytes = fs::read(&path).unwrap_or_default();
                    let found = bytes.windows(self.token.len()).any(|part| part == self.token.as_bytes());
                    assert!(!found, "{}", path.display());
                }
            }
        }
    }
}

fn start_server(grove: &Sandbox) -> TestServer {
    let mut command = grove.grove_command(["serve", "--listen", "127.0.0.1:0", "--test-adapter"]);
    let bin = grove.repo.temp_dir().join("bin");
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default()));
    TestServer::start_command(command, grove)
}

fn git_log_path(grove: &Sandbox) -> PathBuf {
    grove.repo.temp_dir().join("calls")
}

fn write_program(path: &Path, script: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_owned()
}
