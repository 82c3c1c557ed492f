//! Which agent a conversation talks to.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_environments::settings::agent_catalog::{KNOWN, find, known};
use grove_environments::settings::{AgentKind, AgentSettings, Settings};
use grove_model::is_of_this_machine;

use crate::agent::Agent;
use crate::command::CommandAgent;

/// The agent that is always there: the message is a command of the shell.
const SHELL: &str = "sh";

/// The agents of this machine.
#[derive(Clone)]
pub struct Agents {
    settings: Settings,
}

/// Why nobody answers.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAgent {
    #[error("no agent is called `{name}`")]
    Unknown { name: String, known: Vec<String> },
    #[error("no coding agent is installed or configured, and the shell is only for people on this machine")]
    OnlyLocal,
}

impl Agents {
    pub fn new(settings: &Settings) -> Self {
        Self { settings: settings.clone() }
    }

    /// The agents that can be chosen: configured ones, installed ones that are known, and the shell.
    pub fn names(&self) -> Vec<String> {
        let configured = self.settings.agents().keys().cloned();
        let installed = installed().map(str::to_owned);
        let mut names: Vec<String> = configured.chain(installed).chain([SHELL.to_owned()]).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The agent that answers where no other is wanted.
    pub fn default_name(&self) -> &str {
        self.settings.default_agent().or_else(|| installed().next()).unwrap_or(SHELL)
    }

    /// The agent for a message that an adapter took: the wanted one, or the default.
    pub fn choose(&self, wanted: Option<&str>, via: &str) -> Result<Arc<dyn Agent>, NoAgent> {
        let name = wanted.unwrap_or_else(|| self.default_name());
        let settings = self.settings_of(name)?;
        if name == SHELL && !self.settings.agents().contains_key(SHELL) && !is_of_this_machine(via) {
            return Err(NoAgent::OnlyLocal);
        }
        Ok(match settings.kind {
            AgentKind::Command => Arc::new(CommandAgent::new(name, settings)),
            AgentKind::Claude => Arc::new(crate::claude::ClaudeAgent::new(name, settings)),
            AgentKind::Codex => Arc::new(crate::codex::CodexAgent::new(name, settings)),
            AgentKind::Acp => Arc::new(crate::acp::AcpAgent::new(name, settings)),
        })
    }

    /// How an agent is run.
    pub fn settings_of(&self, name: &str) -> Result<AgentSettings, NoAgent> {
        let shell = || AgentSettings {
            command: ["sh", "-c", "{prompt}"].map(str::to_owned).to_vec(),
            ..AgentSettings::of(AgentKind::Command)
        };
        let found = self.settings.agents().get(name).cloned();
        let found = found.or_else(|| known(name).map(AgentSettings::of_known));
        found
            .or_else(|| (name == SHELL).then(shell))
            .ok_or_else(|| NoAgent::Unknown { name: name.to_owned(), known: self.names() })
    }
}

/// The known agents whose programs are there, the default first.
fn installed() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().filter(|known| find(known.command[0], &BTreeMap::new()).is_some()).map(|known| known.name)
}
