//! The available agents, and which one a conversation uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_environments::settings::agent_catalog::{KNOWN_AGENTS, find_known_agent, find_program};
use grove_environments::settings::{AgentKind, AgentSettings, LiveSettings};
use grove_model::is_of_this_machine;

use crate::agent::Agent;
use crate::command::CommandAgent;

/// The agent that is always available: it runs the message as a shell command.
const SHELL_AGENT: &str = "sh";

/// The agents of this machine.
#[derive(Clone)]
pub struct AgentRegistry {
    settings: LiveSettings,
}

/// The reason why no agent can be chosen.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentChoiceError {
    #[error("no agent is called `{name}`")]
    Unknown { name: String, known: Vec<String> },
    #[error("no coding agent is installed or configured, and the shell is only for people on this machine")]
    OnlyLocal,
}

impl AgentRegistry {
    pub fn new(settings: impl Into<LiveSettings>) -> Self {
        Self { settings: settings.into() }
    }

    /// Returns the agents that can be chosen: the configured ones, the known ones that are installed, and
    /// the shell.
    pub fn agent_names(&self) -> Vec<String> {
        let settings = self.settings.current();
        let configured = settings.configured_agents().keys().cloned();
        let installed = installed_agent_names().map(str::to_owned);
        let mut names: Vec<String> = configured.chain(installed).chain([SHELL_AGENT.to_owned()]).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the agent that is used when no other one is requested.
    pub fn default_name(&self) -> String {
        let settings = self.settings.current();
        settings.default_agent().or_else(|| installed_agent_names().next()).unwrap_or(SHELL_AGENT).to_owned()
    }

    /// Returns the agent for a message of an adapter: the requested one, or the default.
    pub fn choose_agent(&self, wanted: Option<&str>, via: &str) -> Result<Arc<dyn Agent>, AgentChoiceError> {
        let name = wanted.map_or_else(|| self.default_name(), str::to_owned);
        let name = name.as_str();
        let settings = self.settings_of(name)?;
        if name == SHELL_AGENT
            && !self.settings.current().configured_agents().contains_key(SHELL_AGENT)
            && !is_of_this_machine(via)
        {
            return Err(AgentChoiceError::OnlyLocal);
        }
        Ok(match settings.kind {
            AgentKind::Command => Arc::new(CommandAgent::new(name, settings)),
            AgentKind::Claude => Arc::new(crate::claude::ClaudeAgent::new(name, settings)),
            AgentKind::Codex => Arc::new(crate::codex::CodexAgent::new(name, settings)),
            AgentKind::Acp => Arc::new(crate::acp::AcpAgent::new(name, settings)),
        })
    }

    /// Returns the settings that an agent runs with.
    pub fn settings_of(&self, name: &str) -> Result<AgentSettings, AgentChoiceError> {
        let shell = || AgentSettings {
            command: ["sh", "-c", "{prompt}"].map(str::to_owned).to_vec(),
            ..AgentSettings::for_kind(AgentKind::Command)
        };
        let found = self.settings.current().configured_agents().get(name).cloned();
        let found = found.or_else(|| find_known_agent(name).map(AgentSettings::of_known));
        found
            .or_else(|| (name == SHELL_AGENT).then(shell))
            .ok_or_else(|| AgentChoiceError::Unknown { name: name.to_owned(), known: self.agent_names() })
    }
}

/// Returns the known agents that are installed, the default first.
fn installed_agent_names() -> impl Iterator<Item = &'static str> {
    KNOWN_AGENTS
        .iter()
        .filter(|known| find_program(known.command[0], &BTreeMap::new()).is_some())
        .map(|known| known.name)
}
