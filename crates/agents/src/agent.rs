//! The interface to coding agents.
//!
//! An [`Agent`] starts in a [`WorkDir`] with a prompt, reports events while it works, and ends with a
//! [`RunOutcome`].

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use grove_environments::ready::WorkDir;
use grove_environments::settings::AgentSettings;
use grove_environments::settings::agent_catalog::{find_known_agent, find_program, of_kind};
use tokio::sync::{mpsc, watch};

/// The number of bytes of an agent's text that are kept.
pub(crate) const MAX_KEPT_TEXT_BYTES: usize = 64 * 1024 * 1024;

/// An event that an agent reports while it works.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// A piece of a text that is being streamed.
    Delta(String),
    /// A complete text; the deltas since the last text were pieces of it.
    Text(String),
    /// The text is complete; only its pieces were reported.
    TextDone,
    /// The agent uses a tool: its name, and its object in a few words.
    ToolUse {
        name: String,
        about: String,
    },
    /// The result of a tool, in a few words.
    ToolResult {
        failed: bool,
        about: String,
    },
    Plan(Vec<PlanStep>),
    /// The agent asked for permission, which was granted or refused.
    Permission {
        about: String,
        given: bool,
    },
    /// The usage of the run so far.
    Usage(RunUsage),
    /// The agent's own id of the current session.
    Session(String),
}

/// A step of an agent's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    pub text: String,
    pub done: bool,
}

/// The usage of a run; a part that the agent does not report is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// The cost in US dollars.
    pub cost: f64,
}

impl From<RunUsage> for grove_store::AgentUsage {
    fn from(usage: RunUsage) -> Self {
        let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Self {
            input_tokens: tokens(usage.input_tokens),
            output_tokens: tokens(usage.output_tokens),
            // Rounding is safe: the amounts are small.
            cost_microdollars: (usage.cost * 1e6).round() as i64,
        }
    }
}

impl From<grove_store::AgentUsage> for RunUsage {
    fn from(usage: grove_store::AgentUsage) -> Self {
        let tokens = |count: i64| u64::try_from(count).unwrap_or(0);
        Self {
            input_tokens: tokens(usage.input_tokens),
            output_tokens: tokens(usage.output_tokens),
            cost: usage.cost_microdollars as f64 / 1e6,
        }
    }
}

/// The reason why a run is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The user sent `/stop`.
    Stopped,
    /// This program shuts down.
    Draining,
    /// Another process owns the conversation now.
    LostTurn,
}

/// The memory of an agent from one message to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionMemory {
    /// No memory: every message starts anew.
    None,
    /// Sessions that belong to a directory, with an id that we choose.
    OfPlace,
    /// Sessions that belong to a directory, with an id that the agent chooses.
    Stays,
    /// Sessions that can move to another directory, with an id that the agent chooses.
    Travels,
}

/// The session that an agent has to work in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionRequest {
    /// A new session, with an id that the agent chooses.
    New,
    /// A new session with this id; an interrupted run may have started it already.
    Named(String),
    Resume(String),
}

/// The tools that an agent may use, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolPolicy {
    /// The only tools that are allowed; if empty, all are.
    pub allowed: Vec<String>,
    pub disallowed: Vec<String>,
    /// The agent must not change anything.
    pub read_only: bool,
}

/// One turn of an agent.
pub struct AgentRun<'a> {
    pub place: &'a WorkDir,
    pub prompt: &'a str,
    pub session: SessionRequest,
    /// The usage of the session before this run.
    pub before: RunUsage,
    pub tools: &'a ToolPolicy,
    /// Receives the events while the agent works.
    pub says: mpsc::Sender<AgentEvent>,
    pub cancel: watch::Receiver<Option<CancelReason>>,
}

/// The way in which a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    Well,
    /// The program failed with this exit code; these are the last lines of its standard error.
    Badly {
        code: i32,
        last_lines: String,
    },
    /// The agent itself reports that it failed, and why.
    Failed(String),
    /// The agent does not know the session that it had to continue.
    NoSession,
    /// The run exceeded its budget.
    OverBudget,
    Cancelled(CancelReason),
    TimedOut,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    pub text: String,
    /// The number of bytes before `text` that were not kept.
    pub left_out: u64,
    pub usage: RunUsage,
    pub ended: RunEnd,
}

/// The reason why an agent did not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the agent `{name}` cannot be started: {why}")]
    NotStarted { name: String, why: String },
    #[error("the agent `{name}` needs the program `{program}`, which is not installed")]
    NotInstalled { name: String, program: String, how: &'static str },
    #[error("the message is too long for the agent `{name}`, which takes it as an argument")]
    TooLong { name: String },
    /// Nothing was started; choosing the environment again may help.
    #[error("{} is not there any more", .0.display())]
    Moved(PathBuf),
}

#[async_trait]
pub trait Agent: Send + Sync {
    fn name(&self) -> &str;

    fn agent_settings(&self) -> &AgentSettings;

    fn session_memory(&self) -> SessionMemory;

    /// Tells whether the agent can be restricted to a list of tools, whatever its prompt says.
    fn keeps_to_tools(&self) -> bool {
        false
    }

    /// Returns the request for a session that did not exist before.
    fn new_session(&self) -> SessionRequest {
        match self.session_memory() {
            // The id is chosen before the start, so that a crash cannot lose it.
            SessionMemory::OfPlace => SessionRequest::Named(uuid::Uuid::now_v7().to_string()),
            SessionMemory::None | SessionMemory::Stays | SessionMemory::Travels => SessionRequest::New,
        }
    }

    /// Checks that the agent's program is installed, before anything is started.
    fn check_installed(&self) -> Result<(), AgentError> {
        let settings = self.agent_settings();
        let program = settings.command.first().map_or("", String::as_str);
        if find_program(program, &settings.env).is_some() {
            return Ok(());
        }
        let known = find_known_agent(self.name()).or_else(|| of_kind(settings.kind));
        let how = known.map_or("Install it, or correct `command` of the agent.", |known| known.install);
        Err(AgentError::NotInstalled { name: self.name().to_owned(), program: program.to_owned(), how })
    }

    async fn run_turn(&self, run: AgentRun<'_>) -> Result<RunOutcome, AgentError>;
}

/// Returns the program that starts agents and ends all their descendants: this program itself.
pub(crate) fn supervisor_program() -> std::io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    // This path stays valid when a newer build replaces the file of the running program.
    let itself = Path::new("/proc/self/exe");
    Ok(if program.exists() { program } else { itself.to_owned() })
}
