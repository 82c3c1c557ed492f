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
use session::Talk;

use crate::agent::{Agent, AgentError, Memory, Outcome, Run};
use crate::process::Program;
use crate::supervisor::Input;

/// How long an agent that was asked to give a turn up may take.
const COURTESY: Duration = Duration::from_secs(3);

/// Programs whose sessions go on in the directory where they began, whatever directory they are told:
/// taken along to another worktree they would work in the old one.
const STAY: [&str; 1] = ["opencode"];

pub struct AcpAgent {
    name: String,
    settings: AgentSettings,
}

impl AcpAgent {
    pub fn new(name: &str, settings: AgentSettings) -> Self {
        Self { name: name.to_owned(), settings }
    }

    /// The file name of its program.
    fn program(&self) -> Option<&str> {
        Path::new(self.settings.command.first()?).file_name()?.to_str()
    }
}

#[async_trait]
impl Agent for AcpAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    fn memory(&self) -> Memory {
        let stays = self.program().is_some_and(|program| STAY.contains(&program));
        if stays { Memory::Stays } else { Memory::Travels }
    }

    async fn run(&self, run: Run<'_>) -> Result<Outcome, AgentError> {
        let mut env = self.settings.env.clone();
        if self.program() == Some("opencode")
            && let Some(rules) = opencode::rules(self.settings.permissions, run.tools)
        {
            env.insert(opencode::VARIABLE.to_owned(), rules);
        }
        let program = Program {
            name: &self.name,
            command: self.settings.command.clone(),
            env: &env,
            input: Input::Live,
            timeout: self.settings.timeout,
            courtesy: COURTESY,
        };
        let (place, cancel) = (run.place, run.cancel.clone());
        let mut talk = Talk::new(self, run);
        let exit = program.run(place, cancel, &mut talk).await?;
        Ok(talk.heard.outcome(exit))
    }
}
