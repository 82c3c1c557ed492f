//! Any agent that speaks the Agent Client Protocol on its standard input and output.

mod calls;
mod opencode;
mod policy;
mod rpc;
mod session;
mod updates;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use grove_environments::settings::AgentSettings;
use session::AcpTurn;

use crate::agent::{Agent, AgentError, AgentRun, RunOutcome, SessionMemory};
use crate::process::AgentProgram;
use crate::supervisor::AgentInput;

/// The time that an agent has to end a turn after it was asked to cancel it.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(3);

/// Programs whose sessions continue in the directory where they began, whatever directory they get: in
/// another worktree such a session would work in the old one.
const DIRECTORY_BOUND_PROGRAMS: [&str; 1] = ["opencode"];

pub struct AcpAgent {
    name: String,
    settings: AgentSettings,
}

impl AcpAgent {
    pub fn new(name: &str, settings: AgentSettings) -> Self {
        Self { name: name.to_owned(), settings }
    }

    /// Returns the file name of the program.
    fn program_name(&self) -> Option<&str> {
        Path::new(self.settings.command.first()?).file_name()?.to_str()
    }
}

#[async_trait]
impl Agent for AcpAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn agent_settings(&self) -> &AgentSettings {
        &self.settings
    }

    fn session_memory(&self) -> SessionMemory {
        let stays = self.program_name().is_some_and(|program| DIRECTORY_BOUND_PROGRAMS.contains(&program));
        if stays { SessionMemory::Stays } else { SessionMemory::Travels }
    }

    async fn run_turn(&self, run: AgentRun<'_>) -> Result<RunOutcome, AgentError> {
        let mut env = self.settings.env.clone();
        if self.program_name() == Some("opencode")
            && let Some(rules) = opencode::permission_rules(self.settings.permissions, run.tools)
        {
            env.insert(opencode::PERMISSION_VARIABLE.to_owned(), rules);
        }
        let program = AgentProgram {
            name: &self.name,
            command: self.settings.command.clone(),
            env: &env,
            input: AgentInput::Live,
            timeout: self.settings.timeout,
            courtesy: CANCEL_TIMEOUT,
        };
        let (place, cancel) = (run.place, run.cancel.clone());
        let mut talk = AcpTurn::new(self, run);
        let exit = program.run_supervised(place, cancel, &mut talk).await?;
        Ok(talk.transcript.into_run_outcome(exit))
    }
}
