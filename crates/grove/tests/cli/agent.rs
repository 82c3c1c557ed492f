//! `grove agent …`: which agents are there, and whether they answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use grove_testkit::{Ran, Sandbox, TestRepo};
use serde_json::Value;

use crate::sandbox;

/// A home with programs of its own in front of everybody's.
struct Machine {
    grove: Sandbox,
}

impl Machine {
    fn new() -> Self {
        let grove = sandbox(TestRepo::new());
        fs::create_dir_all(grove.grove_home()).unwrap();
        fs::create_dir_all(grove.repo.dir().join("bin")).unwrap();
        Self { grove }
    }

    fn has(self, program: &str, script: &str) -> Self {
        let path = self.grove.repo.dir().join("bin").join(program);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn configured(self, config: &str) -> Self {
        fs::write(self.grove.grove_home().join("config.toml"), config).unwrap();
        self
    }

    fn grove(&self, args: &[&str]) -> Ran {
        let mut command = self.grove.command(args);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.grove.repo.dir().join("bin").display()));
        grove_testkit::ran(&mut command)
    }

    fn listed(&self, name: &str) -> Value {
        let list = self.grove(&["agent", "list", "--json"]).ok().json();
        let found = list.as_array().unwrap().iter().find(|agent| agent["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {list}")).clone()
    }
}

const LOGGED_OUT: &str = "case \"$1\" in --version) echo '9.9 (Claude Code)';; auth) exit 1;; esac";
const ANSWERS: &str = r#"echo "$@" > "$HOME/arguments"; cat > "$HOME/prompt"
echo '{"type":"system","subtype":"init","session_id":"s"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"ready","total_cost_usd":0.5,"usage":{"input_tokens":3,"output_tokens":2}}'"#;

#[test]
fn installed_agents_are_found_and_the_first_is_the_default() {
    let machine = Machine::new().has("claude", LOGGED_OUT).has("codex", "echo codex-cli 1");
    let claude = machine.listed("claude");
    assert_eq!(claude["state"], "not logged in");
    assert_eq!(claude["version"], "9.9 (Claude Code)");
    assert_eq!(claude["default"], true);
    assert!(claude["hint"].as_str().unwrap().contains("log in"), "{claude}");
    assert_eq!(machine.listed("codex")["default"], false);
    let gemini = machine.listed("gemini");
    assert_eq!((&gemini["state"], &gemini["path"]), (&Value::from("not installed"), &Value::Null));
    assert!(gemini["hint"].as_str().unwrap().starts_with("Install it with `npm install"), "{gemini}");
    assert_eq!(machine.listed("sh")["state"], "ready");
    let checks = machine.grove(&["doctor", "--json"]).ok().json();
    let checks = checks["checks"].as_array().unwrap();
    let of = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{checks:?}"));
    assert_eq!(of("agent claude")["verdict"], "warning");
    assert_eq!(of("agent codex")["detail"], "codex-cli 1");
}

#[test]
fn without_any_the_shell_is_the_default_and_settings_win() {
    assert_eq!(Machine::new().listed("sh")["default"], true);
    let config = "[agent]\ndefault = \"mine\"\n[agents.mine]\ncommand = [\"cat\"]\n";
    let machine = Machine::new().has("claude", LOGGED_OUT).configured(config);
    assert_eq!(machine.listed("mine")["default"], true);
    assert_eq!(machine.listed("claude")["default"], false);
    let machine = Machine::new().configured("[agent]\ndefault = \"nobody\"\n");
    let told = machine.grove(&["doctor", "--json"]).fails(1).stdout;
    assert!(told.contains("`agent.default` is `nobody`, which is no agent"), "{told}");
}

#[test]
fn a_test_gives_it_a_small_piece_of_work_and_leaves_nothing() {
    let machine = Machine::new().has("claude", ANSWERS);
    let told = machine.grove(&["agent", "test", "claude", "--json"]).ok().json();
    assert_eq!((&told["answer"], &told["usage"]["cost"]), (&Value::from("ready"), &Value::from(0.5)));
    let home = machine.grove.repo.home();
    assert_eq!(fs::read_to_string(home.join("prompt")).unwrap(), "Reply with the single word: ready");
    let arguments = fs::read_to_string(home.join("arguments")).unwrap();
    assert!(arguments.contains("--permission-mode default") && arguments.contains("Write"), "{arguments}");
    assert_eq!(fs::read_dir(machine.grove.grove_home().join("scratch")).unwrap().count(), 0);
    assert!(machine.grove(&["agent", "test", "sh"]).ok().stdout.starts_with("sh answers: ready\n"));
}

#[test]
fn what_is_missing_or_fails_is_said_with_what_to_do() {
    let refused = |machine: Machine, name: &str| machine.grove(&["agent", "test", name, "--json"]).fails(1).error();
    let (code, words) = refused(Machine::new(), "codex");
    assert_eq!(code, "agent_failed");
    assert!(words.contains("not installed. Install it with `npm install -g @openai/codex`"), "{words}");
    assert_eq!(refused(Machine::new(), "nobody").0, "no_agent");
    let (_, words) = refused(Machine::new().has("claude", "echo 'what went wrong' >&2; exit 3"), "claude");
    assert!(words.contains("failed with exit code 3. what went wrong"), "{words}");
    let line = r#"{"type":"result","subtype":"success","is_error":true,"result":"Not logged in · Please run /login"}"#;
    let (_, words) = refused(Machine::new().has("claude", &format!("echo '{line}'; exit 1")), "claude");
    assert!(words.contains("Not logged in") && words.contains("Run `claude` once and log in"), "{words}");
}
