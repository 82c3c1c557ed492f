//! The messages that a person reads when an agent cannot be used.

use grove_environments::problem::{Problem, sentence};

use crate::agent::AgentError;
use crate::registry::AgentChoiceError;

impl From<AgentChoiceError> for Problem {
    fn from(error: AgentChoiceError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            AgentChoiceError::Unknown { known, .. } => {
                Problem::new("no_agent", message, format!("There are: {}.", known.join(", ")))
            }
            AgentChoiceError::OnlyLocal => Problem::new(
                "no_agent",
                message,
                "Configure one as [agents.NAME] in GROVE_HOME/config.toml and name it in `agent.default`.",
            ),
        }
    }
}

impl From<AgentError> for Problem {
    fn from(error: AgentError) -> Self {
        let message = sentence(&error.to_string());
        let hint = match error {
            AgentError::NotStarted { .. } => {
                "Check that the program is installed and on PATH; `/agent NAME` chooses another."
            }
            AgentError::NotInstalled { how, .. } => how,
            AgentError::TooLong { .. } => "Say it in fewer words, or let the agent read it from its standard input.",
            AgentError::Moved(_) => "Choose another directory with `/cwd PATH`.",
        };
        Problem::new("agent_failed", message, hint)
    }
}
