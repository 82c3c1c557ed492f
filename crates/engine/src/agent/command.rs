//! Any program as an agent: the prompt as an argument or on its standard input, text on its standard
//! output.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use grove_git::processes::{RUN_MARK, end_run};
use grove_model::Nonce;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::supervise::{MOVED, NOT_STARTED, Order, complaint};
use super::{Agent, AgentError, AgentEvent, Ended, Outcome, Run, Tail, WorkDir, supervisor};

/// What is kept of an agent's output.
const KEPT: usize = 64 * 1024 * 1024;
/// What is kept of its complaints.
const COMPLAINTS: usize = 16 * 1024;
/// Linux takes no longer argument.
const LONGEST_ARGUMENT: usize = 128 * 1024 - 1;
/// How long a supervisor may take to end a run.
const OVERDUE: Duration = Duration::from_secs(7);
/// What a killed supervisor leaves is not waited for much.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How long output that nobody should be writing any more is waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);
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
        let place = run.place.place().clone();
        let nonce = Nonce::new().to_string();
        let mut env = environment(run.place, &self.env);
        env.insert(RUN_MARK.to_owned(), nonce.clone());
        Ok(Order { command, env, cwd: run.place.path().to_owned(), stdin, place, nonce })
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
        let (mut cancelled, mut asked_at) = (None, None::<Instant>);
        let (text, complaints) = (Mutex::new(Tail::new(KEPT)), Mutex::new(Tail::new(COMPLAINTS)));
        let reading = async { tokio::join!(read(stdout, &text, Some(run.says)), read(stderr, &complaints, None)) };
        tokio::pin!(reading);
        let end = tokio::time::sleep(self.timeout);
        tokio::pin!(end);
        let mut all_read = false;
        let mut forced = false;
        let status = loop {
            let overdue = tokio::time::sleep_until(asked_at.unwrap_or_else(Instant::now) + OVERDUE);
            tokio::select! {
                // A supervisor that does not do its work is ended, and its work is done here.
                () = overdue, if asked_at.is_some() && !forced => {
                    forced = true;
                    child.start_kill().map_err(|error| self.not_started(&error))?;
                }
                status = child.wait() => break status.map_err(|error| self.not_started(&error))?,
                _ = &mut reading, if !all_read => all_read = true,
                () = &mut end, if control.is_some() => {
                    cancelled = Some(Ended::TimedOut);
                    (control, asked_at) = (None, Some(Instant::now()));
                }
                wish = run.cancel.wait_for(Option::is_some), if control.is_some() => {
                    let why = wish.ok().and_then(|wish| *wish);
                    cancelled = why.map(Ended::Cancelled);
                    (control, asked_at) = (None, Some(Instant::now()));
                }
            }
        };
        if status.code().is_none() {
            // Somebody killed what would have ended the agent and all that it started.
            end_run(&order.nonce).await;
            order.place.locks.wait_for_runs(AT_ONCE).await.map_err(|error| self.not_started(&error))?;
        }
        // Nobody has the other end any more; whoever hid from us is not waited for.
        if !all_read {
            let _ = tokio::time::timeout(LAST_WORDS, &mut reading).await;
        }
        let code = status.code().unwrap_or(1);
        let taken = |tail: &Mutex<Tail>| {
            std::mem::replace(&mut *tail.lock().unwrap_or_else(PoisonError::into_inner), Tail::new(0)).into_text()
        };
        let ((text, left_out), (complaints, cut)) = (taken(&text), taken(&complaints));
        // A line that was cut may hold half a secret.
        let whole = if cut > 0 { complaints.split_once('\n').map_or("", |(_, rest)| rest) } else { &complaints };
        let last_lines = last_lines(whole);
        let ours = last_lines.strip_prefix(&complaint(&order.nonce));
        let ended = match (cancelled, code, ours) {
            (_, code, Some(_)) if code == i32::from(MOVED) => return Err(AgentError::Moved(order.cwd)),
            (_, code, Some(why)) if code == i32::from(NOT_STARTED) => return Err(self.not_started(&why)),
            (Some(cancelled), ..) => cancelled,
            (None, 0, _) => Ended::Well,
            (None, code, _) => Ended::Badly { code, last_lines },
        };
        Ok(Outcome { text, left_out, ended })
    }
}

/// Reads all there is, so that the agent never waits for us; keeps the end of it.
async fn read(mut from: impl AsyncRead + Unpin, tail: &Mutex<Tail>, says: Option<&(dyn Fn(AgentEvent) + Send + Sync)>) {
    let mut buffer = vec![0; 16 * 1024];
    let mut rest: Vec<u8> = Vec::new();
    loop {
        let count = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => count,
        };
        tail.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..count]);
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
