//! The coding agents that are known by name: how to call them, install them and log in to them.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::settings::agents::AgentKind;

/// An agent that people may have installed without configuring it here.
#[derive(Debug)]
pub struct KnownAgent {
    pub name: &'static str,
    pub kind: AgentKind,
    /// Its program and arguments.
    pub command: &'static [&'static str],
    pub install: &'static str,
    pub login: &'static str,
}

/// The known agents, in the order in which the default is looked for.
pub const KNOWN_AGENTS: [KnownAgent; 4] = [
    KnownAgent {
        name: "claude",
        kind: AgentKind::Claude,
        command: &["claude"],
        install: "Install it with `npm install -g @anthropic-ai/claude-code`.",
        login: "Run `claude` once and log in, or set ANTHROPIC_API_KEY in `agents.claude.env`.",
    },
    KnownAgent {
        name: "codex",
        kind: AgentKind::Codex,
        command: &["codex"],
        install: "Install it with `npm install -g @openai/codex`.",
        login: "Run `codex login`, or set CODEX_API_KEY in `agents.codex.env`.",
    },
    KnownAgent {
        name: "opencode",
        kind: AgentKind::Acp,
        command: &["opencode", "acp"],
        install: "Install it with `npm install -g opencode-ai`.",
        login: "Run `opencode auth login`.",
    },
    KnownAgent {
        name: "gemini",
        kind: AgentKind::Acp,
        command: &["gemini", "--acp"],
        install: "Install it with `npm install -g @google/gemini-cli`.",
        login: "Run `gemini` once and log in, or set GEMINI_API_KEY in `agents.gemini.env`.",
    },
];

/// Returns the known agent of this name.
pub fn find_known_agent(name: &str) -> Option<&'static KnownAgent> {
    KNOWN_AGENTS.iter().find(|known| known.name == name)
}

/// Returns the known agent of this kind.
pub fn of_kind(kind: AgentKind) -> Option<&'static KnownAgent> {
    KNOWN_AGENTS.iter().find(|known| known.kind == kind && kind != AgentKind::Acp)
}

/// Returns the path of the program that this name means with these variables.
pub fn find_program(program: &str, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let is_program =
        |path: &Path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    let path = env.get("PATH").cloned().or_else(|| std::env::var("PATH").ok())?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| is_program(path))
}
