//! `grove agent …`: which agents are there, and whether they answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use grove_testkit::{ProgramOutput, Sandbox, TestRepo};
use serde_json::Value;

use crate::new_sandbox;

/// A home with programs of its own in front of everybody's.
struct AgentCliTest {
    grove: Sandbox,
}

impl AgentCliTest {
    fn new() -> Self {
        let grove = new_sandbox(TestRepo::new());
        fs::create_dir_all(grove.grove_home()).unwrap();
        fs::create_dir_all(grove.repo.temp_dir().join("bin")).unwrap();
        Self { grove }
    }

    fn with_program(self, program: &str, script: &str) -> Self {
        let path = self.grove.repo.temp_dir().join("bin").join(program);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn with_config(self, config: &str) -> Self {
        fs::write(self.grove.grove_home().join("config.toml"), config).unwrap();
        self
    }

    fn run_grove(&self, args: &[&str]) -> ProgramOutput {
        let mut command = self.grove.grove_command(args);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.grove.repo.temp_dir().join("bin").display()));
        grove_testkit::run_command(&mut command)
    }

    fn listed_agent(&self, name: &str) -> Value {
        let list = self.run_grove(&["agent", "list", "--json"]).assert_success().json();
        let found = list.as_array().unwrap().iter().find(|agent| agent["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {list}")).clone()
    }
}

const LOGGED_OUT_CLAUDE_SCRIPT: &str = "case \"$1\" in --version) echo '9.9 (Claude Code)';; auth) exit 1;; esac";
const ANSWERING_CLAUDE_SCRIPT: &str = r#"echo "$@" > "$HOME/arguments"; cat > "$HOME/prompt"
echo '{"type":"system","subtype":"init","session_id":"s"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"ready","total_cost_usd":0.5,"usage":{"input_tokens":3,"output_tokens":2}}'"#;

#[test]
fn installed_agents_are_found_and_the_first_is_the_default() {
    let machine =
        AgentCliTest::new().with_program("claude", LOGGED_OUT_CLAUDE_SCRIPT).with_program("codex", "echo codex-cli 1");
    let claude = machine.listed_agent("claude");
    assert_eq!(claude["state"], "not logged in");
    assert_eq!(claude["version"], "9.9 (Claude Code)");
    assert_eq!(claude["default"], true);
    assert!(claude["hint"].as_str().unwrap().contains("log in"), "{claude}");
    assert_eq!(machine.listed_agent("codex")["default"], false);
    let gemini = machine.listed_agent("gemini");
    assert_eq!((&gemini["state"], &gemini["path"]), (&Value::from("not installed"), &Value::Null));
    assert!(gemini["hint"].as_str().unwrap().starts_with("Install it with `npm install"), "{gemini}");
    assert_eq!(machine.listed_agent("sh")["state"], "ready");
    let checks = machine.run_grove(&["doctor", "--json"]).assert_success().json();
    let checks = checks["checks"].as_array().unwrap();
    let of = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{checks:?}"));
    assert_eq!(of("agent claude")["verdict"], "warning");
    assert_eq!(of("agent codex")["detail"], "codex-cli 1");
}

#[test]
fn without_any_the_shell_is_the_default_and_settings_win() {
    assert_eq!(AgentCliTest::new().listed_agent("sh")["default"], true);
    let config = "[agent]\ndefault = \"mine\"\n[agents.mine]\ncommand = [\"cat\"]\n";
    let machine = AgentCliTest::new().with_program("claude", LOGGED_OUT_CLAUDE_SCRIPT).with_config(config);
    assert_eq!(machine.listed_agent("mine")["default"], true);
    assert_eq!(machine.listed_agent("claude")["default"], false);
    let machine = AgentCliTest::new().with_config("[agent]\ndefault = \"nobody\"\n");
    let told = machine.run_grove(&["doctor", "--json"]).assert_exit_code(1).stdout;
    assert!(told.contains("`agent.default` is `nobody`, which is no agent"), "{told}");
}

#[test]
fn a_test_gives_it_a_small_piece_of_work_and_leaves_nothing() {
    let machine = AgentCliTest::new().with_program("claude", ANSWERING_CLAUDE_SCRIPT);
    let told = machine.run_grove(&["agent", "test", "claude", "--json"]).assert_success().json();
    assert_eq!((&told["answer"], &told["usage"]["cost"]), (&Value::from("ready"), &Value::from(0.5)));
    let home = machine.grove.repo.home_dir();
    assert_eq!(fs::read_to_string(home.join("prompt")).unwrap(), "Reply with the single word: ready");
    let arguments = fs::read_to_string(home.join("arguments")).unwrap();
    assert!(arguments.contains("--permission-mode default") && arguments.contains("Write"), "{arguments}");
    assert_eq!(fs::read_dir(machine.grove.grove_home().join("scratch")).unwrap().count(), 0);
    assert!(machine.run_grove(&["agent", "test", "sh"]).assert_success().stdout.starts_with("sh answers: ready\n"));
}

#[test]
fn what_is_missing_or_fails_is_said_with_what_to_do() {
    let refused = |machine: AgentCliTest, name: &str| {
        machine.run_grove(&["agent", "test", name, "--json"]).assert_exit_code(1).json_error()
    };
    let (code, words) = refused(AgentCliTest::new(), "codex");
    assert_eq!(code, "agent_failed");
    assert!(words.contains("not installed. Install it with `npm install -g @openai/codex`"), "{words}");
    assert_eq!(refused(AgentCliTest::new(), "nobody").0, "no_agent");
    let (_, words) =
        refused(AgentCliTest::new().with_program("claude", "echo 'what went wrong' >&2; exit 3"), "claude");
    assert!(words.contains("failed with exit code 3. what went wrong"), "{words}");
    let line = r#"{"type":"result","subtype":"success","is_error":true,"result":"Not logged in · Please run /login"}"#;
    let (_, words) = refused(AgentCliTest::new().with_program("claude", &format!("echo '{line}'; exit 1")), "claude");
    assert!(words.contains("Not logged in") && words.contains("Run `claude` once and log in"), "{words}");
}
