//! A server with one of the real agents, set up as a person would do it, and the model that the agent
//! asks.

use std::fs;
use std::path::{Path, PathBuf};

use grove_testkit::{FakeModel, Sandbox, TestEngine, TestServer, TestStore};
use serde_json::{Value, json};

use super::super::{list_environments, registered_sandbox, serve_command};

/// The agents that `scripts/test` installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealAgent {
    Claude,
    Codex,
    Opencode,
}

impl RealAgent {
    pub fn name(self) -> &'static str {
        match self {
            RealAgent::Claude => "claude",
            RealAgent::Codex => "codex",
            RealAgent::Opencode => "opencode",
        }
    }

    /// The version that is pinned.
    pub fn pinned_version(self) -> String {
        let package = match self {
            RealAgent::Claude => "@anthropic-ai/claude-code",
            RealAgent::Codex => "@openai/codex",
            RealAgent::Opencode => "opencode-ai",
        };
        let packages: Value = serde_json::from_str(include_str!("../../../agents/package.json")).unwrap();
        packages["dependencies"][package].as_str().unwrap().to_owned()
    }

    /// What `/status` says when the model has answered three times, each with 12 tokens in, 3 more
    /// from its cache, and 7 out.
    pub fn usage_of_three_answers(self) -> &'static str {
        match self {
            RealAgent::Claude => "Usage: 45 tokens in, 21 out, $0.0",
            // Those of the cache are among the 12.
            RealAgent::Codex => "Usage: 36 tokens in, 21 out",
            // It counts the last answer of a turn.
            RealAgent::Opencode => "Usage: 24 tokens in, 14 out",
        }
    }
}

/// What of the machine an agent finds; without anything set, all that `scripts/test` finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineSetup {
    /// There is no `bwrap` on the path.
    pub without_bubblewrap: bool,
    /// The temporary folder lies beside the person's home, not above it as in tests.
    pub own_temporary_folder: bool,
}

pub struct RealAgentTest {
    pub real: RealAgent,
    pub server: TestServer,
    pub model: FakeModel,
    pub grove: Sandbox,
}

impl RealAgentTest {
    /// Returns `None` if the developer opts out of these tests with `GROVE_TEST_NO_AGENTS=1`.
    pub fn with_agent(real: RealAgent) -> Option<Self> {
        Self::set_up(real, FakeModel::API_KEY, "edit", MachineSetup::default())
    }

    pub fn with_key(real: RealAgent, key: &str) -> Option<Self> {
        Self::set_up(real, key, "edit", MachineSetup::default())
    }

    pub fn on_machine(real: RealAgent, machine: MachineSetup) -> Option<Self> {
        Self::set_up(real, FakeModel::API_KEY, "edit", machine)
    }

    /// With an agent that may do as much as this.
    pub fn where_it_may(real: RealAgent, permissions: &str) -> Option<Self> {
        Self::set_up(real, FakeModel::API_KEY, permissions, MachineSetup::default())
    }

    fn set_up(real: RealAgent, key: &str, permissions: &str, machine: MachineSetup) -> Option<Self> {
        let programs = agent_programs()?;
        let (grove, model) = (registered_sandbox(TestStore::new(TestEngine::Sqlite)), FakeModel::start());
        let config = match real {
            RealAgent::Claude => claude_config(&programs, &model, key),
            RealAgent::Codex => codex_config(&programs, &model, key, &grove.repo.home_dir()),
            RealAgent::Opencode => opencode_config(&programs, &model, key, &grove.repo.home_dir()),
        };
        fs::create_dir_all(grove.grove_home()).unwrap();
        let config = format!("{config}permissions = {permissions:?}\n");
        fs::write(grove.grove_home().join("config.toml"), config).unwrap();
        let mut command = serve_command(&grove);
        if machine.without_bubblewrap {
            command.env("PATH", path_without("bwrap", &grove.repo.temp_dir().join("programs")));
        }
        if machine.own_temporary_folder {
            let folder = grove.repo.temp_dir().join("temporary");
            fs::create_dir(&folder).unwrap();
            command.env("TMPDIR", folder);
        }
        let server = TestServer::start_command(command, &grove);
        Some(Self { real, server, model, grove })
    }

    /// Asks the server to end, and starts another.
    pub fn restart_server(&mut self) {
        assert!(self.server.terminate().success());
        self.server = TestServer::start_command(serve_command(&self.grove), &self.grove);
    }

    /// The worktree of the only environment.
    pub fn worktree_path(&self) -> PathBuf {
        let environments = list_environments(&self.grove);
        assert_eq!(environments.len(), 1, "{environments:#?}");
        PathBuf::from(environments[0]["path"].as_str().unwrap())
    }

    /// Lists the processes of this test beside the server: all of them have the same home.
    pub fn other_processes(&self) -> Vec<String> {
        let home = format!("HOME={}", self.grove.repo.home_dir().display());
        let lives_here = |pid: &str| {
            let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes())
        };
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        let pids = pids.filter(|name| name.parse::<u32>().is_ok_and(|pid| pid != self.server.process_id()));
        let words = |pid: String| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " "))
        };
        pids.filter(|pid| lives_here(pid)).map(words).collect()
    }

    /// Takes everything away that the agent has noted of its sessions.
    pub fn forget_sessions(&self) {
        let folder = match self.real {
            RealAgent::Claude => ".claude/projects",
            RealAgent::Codex => ".codex/sessions",
            RealAgent::Opencode => ".local/share/opencode",
        };
        fs::remove_dir_all(self.grove.repo.home_dir().join(folder)).unwrap();
    }
}

/// A folder with all programs of the path but this one.
fn path_without(program: &str, folder: &Path) -> PathBuf {
    fs::create_dir(folder).unwrap();
    for from in std::env::split_paths(&std::env::var_os("PATH").unwrap()) {
        for entry in fs::read_dir(from).into_iter().flatten().map(Result::unwrap) {
            // The first of a name is the one that is meant.
            if entry.file_name() != program && folder.join(entry.file_name()).symlink_metadata().is_err() {
                std::os::unix::fs::symlink(entry.path(), folder.join(entry.file_name())).unwrap();
            }
        }
    }
    folder.to_owned()
}

/// Where the programs are.
fn agent_programs() -> Option<PathBuf> {
    if std::env::var_os("GROVE_TEST_NO_AGENTS").is_some_and(|value| value == "1") {
        return None;
    }
    let folder = std::env::var_os("GROVE_TEST_AGENTS").expect(
        "the real agents are missing: run `scripts/test`, which installs them and sets GROVE_TEST_AGENTS, \
         or set GROVE_TEST_NO_AGENTS=1 to do without",
    );
    Some(PathBuf::from(folder).join("node_modules/.bin"))
}

/// Returns our own settings for an agent. All its requests to servers other than the model are off.
fn agent_settings(name: &str, kind: &str, command: &[&str], programs: &Path, env: &[(&str, &str)]) -> String {
    let program = programs.join(command[0]).display().to_string();
    let command: Vec<&str> = [program.as_str()].iter().chain(&command[1..]).copied().collect();
    let env: Vec<String> = env.iter().map(|(name, value)| format!("{name} = {value:?}")).collect();
    format!(
        "[agent]\ndefault = {name:?}\n[agents.{name}]\nkind = {kind:?}\ncommand = {command:?}\ntimeout = \"50s\"\n\
         env = {{ {} }}\n",
        env.join(", ")
    )
}

fn claude_config(programs: &Path, model: &FakeModel, key: &str) -> String {
    let env = [
        ("ANTHROPIC_BASE_URL", model.base_url()),
        ("ANTHROPIC_API_KEY", key),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "0"),
    ];
    agent_settings("claude", "claude", &["claude"], programs, &env)
}

fn codex_config(programs: &Path, model: &FakeModel, key: &str, home: &Path) -> String {
    let config = format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"test\"\n[analytics]\nenabled = false\n[features]\nplugins = false\n\
         [model_providers.test]\nname = \"test\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\n\
         env_key = \"TEST_MODEL_KEY\"\nrequest_max_retries = 0\nstream_max_retries = 0\n",
        model.base_url()
    );
    fs::create_dir(home.join(".codex")).unwrap();
    fs::write(home.join(".codex/config.toml"), config).unwrap();
    agent_settings("codex", "codex", &["codex"], programs, &[("TEST_MODEL_KEY", key)])
}

fn opencode_config(programs: &Path, model: &FakeModel, key: &str, home: &Path) -> String {
    let options = json!({ "baseURL": format!("{}/v1", model.base_url()), "apiKey": key });
    let models =
        json!({ "test": { "name": "test", "tool_call": true, "limit": { "context": 100_000, "output": 8000 } } });
    let provider = json!({ "npm": "@ai-sdk/openai-compatible", "name": "test", "options": options, "models": models });
    let config = json!({ "model": "test/test", "small_model": "test/test", "enabled_providers": ["test"],
        "provider": { "test": provider }, "autoupdate": false, "share": "disabled" });
    fs::create_dir_all(home.join(".config/opencode")).unwrap();
    fs::write(home.join(".config/opencode/opencode.json"), config.to_string()).unwrap();
    let env = [
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("npm_config_offline", "true"),
    ];
    agent_settings("opencode", "acp", &["opencode", "acp"], programs, &env)
}
