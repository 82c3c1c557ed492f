//! The coding agents that are known by name: how they are called, installed and logged in to.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::settings::agents::AgentKind;

/// An agent that people may have without having configured it.
#[derive(Debug)]
pub struct Known {
    pub name: &'static str,
    pub kind: AgentKind,
    /// Its program and what goes behind it.
    pub command: &'static [&'static str],
    pub install: &'static str,
    pub login: &'static str,
}

/// In the order in which the default is looked for.
pub const KNOWN: [Known; 4] = [
    Known {
        name: "claude",
        kind: AgentKind::Claude,
        command: &["claude"],
        install: "Install it with `npm install -g @anthropic-ai/claude-code`.",
        login: "Run `claude` once and log in, or set ANTHROPIC_API_KEY in `agents.claude.env`.",
    },
    Known {
        name: "codex",
        kind: AgentKind::Codex,
        command: &["codex"],
        install: "Install it with `npm install -g @openai/codex`.",
        login: "Run `codex login`, or set CODEX_API_KEY in `agents.codex.env`.",
    },
    Known {
        name: "opencode",
        kind: AgentKind::Acp,
        command: &["opencode", "acp"],
        install: "Install it with `npm install -g opencode-ai`.",
        login: "Run `opencode auth login`.",
    },
    Known {
        name: "gemini",
        kind: AgentKind::Acp,
        command: &["gemini", "--acp"],
        install: "Install it with `npm install -g @google/gemini-cli`.",
        login: "Run `gemini` once and log in, or set GEMINI_API_KEY in `agents.gemini.env`.",
    },
];

/// The known agent of this name.
pub fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// The known agent that is meant by a kind.
pub fn of_kind(kind: AgentKind) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.kind == kind && kind != AgentKind::Acp)
}

/// Where a program is that somebody calls by this name, with these variables.
pub fn find(program: &str, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let is_program =
        |path: &Path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    let path = env.get("PATH").cloned().or_else(|| std::env::var("PATH").ok())?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| is_program(path))
}
