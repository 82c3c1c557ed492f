//! A server with the scripted agent in one of its kinds.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use grove_testkit::{Sandbox, TestEngine, TestServer, TestStore};
use serde_json::Value;

use super::super::{registered_sandbox, serve_command};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentFormat {
    Claude,
    Codex,
    Acp,
}

impl AgentFormat {
    /// Also the agent's name.
    pub fn name(self) -> &'static str {
        match self {
            AgentFormat::Claude => "claude",
            AgentFormat::Codex => "codex",
            AgentFormat::Acp => "acp",
        }
    }
}

/// Where cargo puts it when it builds the tests.
pub fn scripted_agent() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_grove")).with_file_name("examples").join("scripted_agent");
    assert!(program.exists(), "build it with `cargo build -p grove --example scripted_agent`");
    program
}

pub struct AgentFormatTest {
    pub kind: AgentFormat,
    pub grove: Sandbox,
    pub server: TestServer,
}

impl AgentFormatTest {
    /// The agent under its name, and as `reader`, `writer` that may all, and `miser`.
    pub fn with_format(kind: AgentFormat) -> Self {
        Self::with_program(kind, &scripted_agent(), &[])
    }

    pub fn with_program(kind: AgentFormat, program: &Path, more: &[&str]) -> Self {
        let grove = registered_sandbox(TestStore::new(TestEngine::Sqlite));
        fs::create_dir_all(grove.grove_home()).unwrap();
        let name = kind.name();
        let words = [program.to_str().unwrap(), "--as", name].into_iter().chain(more.iter().copied());
        let command: Vec<&str> = words.collect();
        let agent = |called: &str, more: &str| {
            format!("[agents.{called}]\nkind = \"{name}\"\ncommand = {command:?}\ntimeout = \"5m\"\n{more}\n")
        };
        let config = [
            format!("[agent]\ndefault = \"{name}\"\n"),
            agent(name, ""),
            agent("reader", "permissions = \"read\""),
            agent("writer", "permissions = \"full\""),
            agent("miser", "budget = 0.5"),
        ];
        fs::write(grove.grove_home().join("config.toml"), config.concat()).unwrap();
        let server = TestServer::start_command(serve_command(&grove), &grove);
        Self { kind, grove, server }
    }

    pub fn restart_server(&mut self) {
        assert!(self.server.terminate().success());
        self.server = TestServer::start_command(serve_command(&self.grove), &self.grove);
    }

    /// Says something and gives the last thing that was said to it: the agent's answer.
    #[track_caller]
    pub fn ask_agent(&self, message: &str) -> String {
        self.server.ask("c", message).pop().expect("an answer")
    }

    /// The agent's own sentence.
    pub fn failure_message(&self, why: &str) -> String {
        format!("The agent `{}` failed: {why}.", self.kind.name())
    }
}

/// What people see of a turn while it lasts: pieces of text and steps, until something is said.
pub fn shown_pieces(events: &mpsc::Receiver<Value>) -> Vec<String> {
    let mut shown = Vec::new();
    loop {
        let event = events.recv_timeout(Duration::from_secs(60)).expect("an event");
        match event["type"].as_str().unwrap() {
            kind @ ("delta" | "step") => shown.push(format!("{kind} {}", event["text"].as_str().unwrap().trim_end())),
            "said" if !shown.is_empty() => return shown,
            _ => {}
        }
    }
}
