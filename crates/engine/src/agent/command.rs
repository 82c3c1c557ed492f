//! Any program as an agent: the prompt as an argument or on its standard input, text on its standard
//! output.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::supervise::{COMPLAINT, MOVED, NOT_STARTED, Order};
use super::{Agent, AgentError, AgentEvent, Ended, Outcome, Run, Tail, WorkDir, supervisor};

/// What is kept of an agent's output.
const KEPT: usize = 64 * 1024 * 1024;
/// What is kept of its complaints.
const COMPLAINTS: usize = 16 * 1024;
/// Linux takes no longer argument.
const LONGEST_ARGUMENT: usize = 128 * 1024 - 1;
/// Where the prompt goes.
const PROMPT: &str = "{prompt}";
/// What an agent gets of our own environment.
const PASSED_ON: [&str; 10] = ["PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "SHELL", "LANG", "LC_ALL", "TERM", "TZ"];

pub struct CommandAgent {
    name: String,
    command: Vec<String>,
    timeout: Duration,
    env: BTreeMap<String, String>,
}

impl CommandAgent {
    pub fn new(name: &str, command: Vec<String>, timeout: Duration, env: BTreeMap<String, String>) -> Self {
        Self { name: name.to_owned(), command, timeout, env }
    }

    fn order(&self, run: &Run<'_>) -> Result<Order, AgentError> {
        let as_argument = self.command.iter().any(|part| part.contains(PROMPT));
        if as_argument && run.prompt.len() > LONGEST_ARGUMENT {
            return Err(AgentError::TooLong { name: self.name.clone() });
        }
        // A NUL ends an argument for the kernel.
        let prompt = run.prompt.replace('\0', "\u{fffd}");
        let command = self.command.iter().map(|part| part.replace(PROMPT, &prompt)).collect();
        let stdin = (!as_argument).then(|| run.prompt.to_owned());
        let place = match run.place {
            WorkDir::Isolated(ready) => Some(ready.place.clone()),
            WorkDir::NoCodebase(_) => None,
        };
        Ok(Order { command, env: environment(run.place, &self.env), cwd: run.place.path().to_owned(), stdin, place })
    }

    fn not_started(&self, why: &dyn std::fmt::Display) -> AgentError {
        AgentError::NotStarted { name: self.name.clone(), why: why.to_string() }
    }
}

/// The agent's environment: what it needs of ours, where it is, and what was configured for it.
fn environment(place: &WorkDir, configured: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let passed_on = PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let mut env: BTreeMap<String, String> = passed_on.collect();
    let mut set = |name: &str, value: String| drop(env.insert(name.to_owned(), value));
    set("GIT_TERMINAL_PROMPT", "0".to_owned());
    // Nobody cleans the shared repository up under the others.
    set("GIT_CONFIG_COUNT", "1".to_owned());
    set("GIT_CONFIG_KEY_0", "gc.auto".to_owned());
    set("GIT_CONFIG_VALUE_0", "0".to_owned());
    if let WorkDir::Isolated(ready) = place {
        set("GROVE_WORKTREE", ready.environment.path.display().to_string());
        set("GROVE_BRANCH", ready.environment.branch.to_string());
        set("GROVE_CODEBASE", ready.codebase.name.clone());
        set("GROVE_WORK", ready.environment.work.to_string());
        set("GROVE_REPO", ready.codebase.default_cwd.display().to_string());
    }
    env.extend(configured.clone());
    env
}

#[async_trait]
impl Agent for CommandAgent {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, mut run: Run<'_>) -> Result<Outcome, AgentError> {
        let order = self.order(&run)?;
        if !order.cwd.is_dir() {
            return Err(AgentError::Moved(order.cwd));
        }
        let program = supervisor().map_err(|error| self.not_started(&error))?;
        let mut command = std::process::Command::new(program);
        command.arg("supervise").env_clear().process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = tokio::process::Command::from(command).spawn().map_err(|error| self.not_started(&error))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut control), Some(stdout), Some(stderr)) = pipes else {
            return Err(self.not_started(&"its pipes are missing"));
        };
        let mut line = serde_json::to_vec(&order).map_err(|error| self.not_started(&error))?;
        line.push(b'\n');
        control.write_all(&line).await.map_err(|error| self.not_started(&error))?;
        // Dropped, it asks for the end.
        let mut control = Some(control);
        let mut cancelled = None;
        let says = run.says;
        let text = read(stdout, KEPT, Some(says));
        let complaints = read(stderr, COMPLAINTS, None);
        let place = run.place;
        let status = async {
            let status = child.wait().await?;
            if let (None, WorkDir::Isolated(ready)) = (status.code(), place) {
                // Somebody killed what would have ended the agent, which still has our pipes.
                ready.end_leftovers().await?;
            }
            std::io::Result::Ok(status.code().unwrap_or(1))
        };
        let work = async { tokio::join!(text, complaints, status) };
        tokio::pin!(work);
        let end = tokio::time::sleep(self.timeout);
        tokio::pin!(end);
        let (text, complaints, status) = loop {
            tokio::select! {
                done = &mut work => break done,
                () = &mut end, if control.is_some() => {
                    cancelled = Some(Ended::TimedOut);
                    control = None;
                }
                wish = run.cancel.wait_for(Option::is_some), if control.is_some() => {
                    let why = wish.ok().and_then(|wish| *wish);
                    cancelled = why.map(Ended::Cancelled);
                    control = None;
                }
            }
        };
        let code = status.map_err(|error| self.not_started(&error))?;
        let (text, left_out) = text.into_text();
        let (complaints, _) = complaints.into_text();
        let last_lines = last_lines(&complaints);
        let ended = match (cancelled, code) {
            (Some(cancelled), _) => cancelled,
            (None, 0) => Ended::Well,
            (None, code) if code == i32::from(MOVED) && run.place.is_isolated() => {
                return Err(AgentError::Moved(order.cwd));
            }
            (None, code) if code == i32::from(NOT_STARTED) && last_lines.starts_with(COMPLAINT) => {
                return Err(self.not_started(&&last_lines[COMPLAINT.len()..]));
            }
            (None, code) => Ended::Badly { code, last_lines },
        };
        Ok(Outcome { text, left_out, ended })
    }
}

/// Reads all there is, so that the agent never waits for us; keeps the end of it.
async fn read(
    mut from: impl AsyncRead + Unpin,
    keep: usize,
    says: Option<&(dyn Fn(AgentEvent) + Send + Sync)>,
) -> Tail {
    let mut tail = Tail::new(keep);
    let mut buffer = vec![0; 64 * 1024];
    let mut rest: Vec<u8> = Vec::new();
    loop {
        let count = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return tail,
            Ok(count) => count,
        };
        tail.push(&buffer[..count]);
        if let Some(says) = says {
            rest.extend_from_slice(&buffer[..count]);
            let whole = whole_characters(&rest);
            if whole > 0 {
                says(AgentEvent::Text(String::from_utf8_lossy(&rest[..whole]).into_owned()));
                rest.drain(..whole);
            }
        }
    }
}

/// How many bytes are whole characters; a few at the end may be the beginning of the next one.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
