//! Runs scripts of a repository under the supervisor, as agents run.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use grove_environments::scripts::{ScriptExit, ScriptOutput, ScriptRun, ScriptRunner};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::process::ChildStdout;
use tokio::sync::watch;

use crate::agent::RunEnd;
use crate::process::{AgentProgram, OutputListener};
use crate::supervisor::AgentInput;

/// Runs scripts under `grove supervise`: everything that a script starts ends with it.
pub struct SupervisedScripts;

#[async_trait]
impl ScriptRunner for SupervisedScripts {
    async fn run_script(&self, run: ScriptRun<'_>) -> Result<ScriptExit, String> {
        let none = BTreeMap::new();
        let program = AgentProgram {
            name: "init script",
            command: run.command,
            env: &none,
            input: AgentInput::Nothing,
            timeout: run.timeout,
            courtesy: Duration::ZERO,
        };
        let never = watch::Sender::new(None);
        let mut listener = ScriptListener(run.output);
        let exit = program.run_at(run.cwd, run.location, run.variables, never.subscribe(), &mut listener).await;
        Ok(match exit.map_err(|error| error.to_string())?.into_run_end() {
            RunEnd::Well => ScriptExit::Success,
            RunEnd::Badly { code, .. } => ScriptExit::Failed { code },
            RunEnd::Failed(why) => return Err(why),
            RunEnd::TimedOut | RunEnd::OverBudget | RunEnd::NoSession | RunEnd::Cancelled(_) => ScriptExit::TimedOut,
        })
    }
}

struct ScriptListener<'a>(&'a ScriptOutput<'a>);

#[async_trait]
impl OutputListener for ScriptListener<'_> {
    async fn listen_to_output(&mut self, from: &mut ChildStdout, _to: DuplexStream) -> Option<Duration> {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            self.0.push_bytes(&buffer[..count]);
        }
        None
    }
}
