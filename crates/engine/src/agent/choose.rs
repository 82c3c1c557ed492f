//! Which agent a conversation talks to.

use std::sync::Arc;
use std::time::Duration;

use grove_model::is_of_this_machine;

use super::{Agent, CommandAgent};
use crate::settings::{AgentKind, AgentSettings, Settings};

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
    #[error("agents of kind `{kind}` come with a later version")]
    NotYet { kind: &'static str },
    #[error("no agent is configured, and the shell is only for people on this machine")]
    OnlyLocal,
}

impl Agents {
    pub fn new(settings: &Settings) -> Self {
        Self { settings: settings.clone() }
    }

    pub fn names(&self) -> Vec<String> {
        let configured = self.settings.agents().keys().cloned();
        let mut names: Vec<String> = configured.chain([SHELL.to_owned()]).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The agent for a message that an adapter took: the wanted one, or the default.
    pub fn choose(&self, wanted: Option<&str>, via: &str) -> Result<Arc<dyn Agent>, NoAgent> {
        let name = wanted.or(self.settings.default_agent()).unwrap_or(SHELL);
        match self.settings.agents().get(name) {
            Some(AgentSettings { kind: AgentKind::Command, command, timeout, env }) => {
                Ok(Arc::new(CommandAgent::new(name, command.clone(), *timeout, env.clone())))
            }
            Some(other) => Err(NoAgent::NotYet { kind: other.kind.as_str() }),
            None if name == SHELL => {
                if !is_of_this_machine(via) {
                    return Err(NoAgent::OnlyLocal);
                }
                let command = ["sh", "-c", "{prompt}"].map(str::to_owned).to_vec();
                Ok(Arc::new(CommandAgent::new(SHELL, command, Duration::from_secs(3600), Default::default())))
            }
            None => Err(NoAgent::Unknown { name: name.to_owned(), known: self.names() }),
        }
    }
}
