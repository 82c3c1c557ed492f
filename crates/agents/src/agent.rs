//! The seam to coding agents.
//!
//! An [`Agent`] is started in a [`WorkDir`] with a prompt, says what it does while it does it, and
//! ends with an [`Outcome`].

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use grove_environments::ready::WorkDir;
use grove_environments::settings::AgentSettings;
use grove_environments::settings::agent_catalog::{find, known, of_kind};
use tokio::sync::{mpsc, watch};

/// What is kept of an agent's text.
pub(crate) const KEPT: usize = 64 * 1024 * 1024;

/// What an agent says while it works.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// A piece of a text that is on its way.
    Delta(String),
    /// A whole text; the deltas since the last one were pieces of it.
    Text(String),
    /// The text is whole of which only pieces were heard.
    TextDone,
    /// It uses a tool: which, and on what, in a few words.
    ToolUse {
        name: String,
        about: String,
    },
    /// What a tool gave, in a few words.
    ToolResult {
        failed: bool,
        about: String,
    },
    Plan(Vec<Step>),
    /// It asked for leave to do something, which was given or not.
    Permission {
        about: String,
        given: bool,
    },
    /// What the run has taken so far.
    Usage(Usage),
    /// Its own name for the session that runs.
    Session(String),
}

/// A step of an agent's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub text: String,
    pub done: bool,
}

/// What a run took; a part that the agent does not tell is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// In US dollars.
    pub cost: f64,
}

impl From<Usage> for grove_store::Usage {
    fn from(usage: Usage) -> Self {
        let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Self {
            input_tokens: tokens(usage.input_tokens),
            output_tokens: tokens(usage.output_tokens),
            // As good as exact: dollars are few.
            cost_microdollars: (usage.cost * 1e6).round() as i64,
        }
    }
}

impl From<grove_store::Usage> for Usage {
    fn from(usage: grove_store::Usage) -> Self {
        let tokens = |count: i64| u64::try_from(count).unwrap_or(0);
        Self {
            input_tokens: tokens(usage.input_tokens),
            output_tokens: tokens(usage.output_tokens),
            cost: usage.cost_microdollars as f64 / 1e6,
        }
    }
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

/// What an agent remembers from one message to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Every message is its first.
    None,
    /// Sessions that belong to a directory, under a name that we choose.
    OfPlace,
    /// Sessions that belong to a directory, under a name that it chooses.
    Stays,
    /// Sessions that go along to another directory, under a name that it chooses.
    Travels,
}

/// Which of its sessions an agent is to work in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionWish {
    /// A new one, under a name of its choice.
    New,
    /// A new one under this name; it may have been begun already by a run that was cut short.
    Named(String),
    Resume(String),
}

/// Which tools an agent may use, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// Only these; empty: all.
    pub allowed: Vec<String>,
    pub disallowed: Vec<String>,
    /// It changes nothing.
    pub read_only: bool,
}

/// One turn of an agent.
pub struct Run<'a> {
    pub place: &'a WorkDir,
    pub prompt: &'a str,
    pub session: SessionWish,
    /// What the session has taken before.
    pub before: Usage,
    pub tools: &'a Tools,
    /// Takes what it says on the way.
    pub says: mpsc::Sender<AgentEvent>,
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
    /// The agent says itself that it failed, and why.
    Failed(String),
    /// It does not know the session that it was to go on with.
    NoSession,
    /// It took more than it may.
    OverBudget,
    Cancelled(Cancel),
    TimedOut,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub text: String,
    /// How many bytes before `text` were not kept.
    pub left_out: u64,
    pub usage: Usage,
    pub ended: Ended,
}

/// The agent did not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the agent `{name}` cannot be started: {why}")]
    NotStarted { name: String, why: String },
    #[error("the agent `{name}` needs the program `{program}`, which is not installed")]
    NotInstalled { name: String, program: String, how: &'static str },
    #[error("the message is too long for the agent `{name}`, which takes it as an argument")]
    TooLong { name: String },
    /// Nothing was started; choosing the place again may help.
    #[error("{} is not there any more", .0.display())]
    Moved(PathBuf),
}

#[async_trait]
pub trait Agent: Send + Sync {
    fn name(&self) -> &str;

    fn settings(&self) -> &AgentSettings;

    fn memory(&self) -> Memory;

    /// Whether it can be held to a list of tools, whatever it is told.
    fn keeps_to_tools(&self) -> bool {
        false
    }

    /// How a session begins that there was not before.
    fn new_session(&self) -> SessionWish {
        match self.memory() {
            // Chosen before the start, so that a crash cannot lose it.
            Memory::OfPlace => SessionWish::Named(uuid::Uuid::now_v7().to_string()),
            Memory::None | Memory::Stays | Memory::Travels => SessionWish::New,
        }
    }

    /// Sees that the agent's program is there, before anything is begun.
    fn installed(&self) -> Result<(), AgentError> {
        let settings = self.settings();
        let program = settings.command.first().map_or("", String::as_str);
        if find(program, &settings.env).is_some() {
            return Ok(());
        }
        let known = known(self.name()).or_else(|| of_kind(settings.kind));
        let how = known.map_or("Install it, or correct `command` of the agent.", |known| known.install);
        Err(AgentError::NotInstalled { name: self.name().to_owned(), program: program.to_owned(), how })
    }

    async fn run(&self, run: Run<'_>) -> Result<Outcome, AgentError>;
}

/// The program that starts agents and ends everything descended from them: this one.
pub(crate) fn supervisor() -> std::io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    // Replaced by a newer build while it runs, it is still itself.
    let itself = Path::new("/proc/self/exe");
    Ok(if program.exists() { program } else { itself.to_owned() })
}
