//! The seam to coding agents.
//!
//! An [`Agent`] is started in a [`WorkDir`] with a prompt, says what it does while it does it, and
//! ends with an [`Outcome`]. Nothing else in the engine knows which program it is.

mod choose;
mod command;
mod place;
pub mod supervise;
mod tail;

use std::path::Path;

use async_trait::async_trait;
use tokio::sync::watch;

pub use choose::{Agents, NoAgent};
pub use command::CommandAgent;
pub use place::{Folder, Ready, ReadyEnvironment, WorkDir};
pub use tail::Tail;

/// What an agent says while it works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// A piece of its text.
    Text(String),
}

/// Why a run is to end before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// Somebody said `/stop`.
    Stopped,
    /// The program ends.
    Draining,
    /// The conversation is another process's now.
    LostTurn,
}

/// One turn of an agent.
pub struct Run<'a> {
    pub place: &'a WorkDir,
    pub prompt: &'a str,
    /// Takes what it says on the way.
    pub says: &'a (dyn Fn(AgentEvent) + Send + Sync),
    pub cancel: watch::Receiver<Option<Cancel>>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Well,
    /// With this exit code, and these last lines of what it complained about.
    Badly {
        code: i32,
        last_lines: String,
    },
    Cancelled(Cancel),
    TimedOut,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub text: String,
    /// How many bytes before `text` were not kept.
    pub left_out: u64,
    pub ended: Ended,
}

/// The agent did not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the agent `{name}` cannot be started: {why}")]
    NotStarted { name: String, why: String },
    #[error("the message is too long for the agent `{name}`, which takes it as an argument")]
    TooLong { name: String },
    /// Nothing was started; choosing the place again may help.
    #[error("{} is not there any more", .0.display())]
    Moved(std::path::PathBuf),
}

#[async_trait]
pub trait Agent: Send + Sync {
    fn name(&self) -> &str;

    async fn run(&self, run: Run<'_>) -> Result<Outcome, AgentError>;
}

/// The program that starts agents and ends everything descended from them: this one.
pub(crate) fn supervisor() -> std::io::Result<std::path::PathBuf> {
    let program = std::env::current_exe()?;
    // Replaced by a newer build while it runs, it is still itself.
    let itself = Path::new("/proc/self/exe");
    Ok(if program.exists() { program } else { itself.to_owned() })
}
