//! Runs an agent's program under its supervisor while a driver reads its output.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use grove_environments::ready::WorkDir;
use grove_environments::scripts::RunLocation;
use grove_git::processes::{RUN_MARK_VARIABLE, end_run};
use grove_model::Nonce;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::agent::{AgentError, CancelReason, RunEnd, supervisor_program};
use crate::environment::agent_variables;
use crate::supervisor::{
    AgentInput, EXIT_CODE_MOVED, EXIT_CODE_NOT_STARTED, SupervisorRequest, supervisor_error_prefix,
};
use crate::tail::TextTail;

/// The number of bytes of standard error that are kept.
const MAX_STDERR_BYTES: usize = 16 * 1024;
/// The time that a supervisor has to end a run.
const SUPERVISOR_EXIT_TIMEOUT: Duration = Duration::from_secs(7);
/// The time that the output of a killed supervisor is waited for.
const KILLED_EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time that remaining output is waited for when no process should be writing any more.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// The size of the buffer for input that the program has not read yet.
const INPUT_BUFFER_BYTES: usize = 64 * 1024;

/// Reads the output of a program. The result is in the listener when the program has ended, even if it was
/// ended in the middle of a line.
#[async_trait]
pub(super) trait OutputListener: Send {
    /// Reads the output, and answers requests of the program ([`AgentInput::Live`]). Returns when the output
    /// ends, or when nothing that follows matters; then the result is the time that the program has to exit
    /// by itself. `None` means no limit.
    async fn listen_to_output(&mut self, from: &mut ChildStdout, to: DuplexStream) -> Option<Duration>;
}

/// A program to run.
pub(super) struct AgentProgram<'a> {
    /// The agent's name.
    pub name: &'a str,
    pub command: Vec<String>,
    pub env: &'a BTreeMap<String, String>,
    pub input: AgentInput,
    pub timeout: Duration,
    /// The time that the listener has to end a run over the protocol before the supervisor ends it.
    pub courtesy: Duration,
}

/// The result of running a program.
pub(super) struct ProgramExit {
    pub code: i32,
    /// The last lines of standard error.
    pub last_lines: String,
    /// The reason why it was ended; `None` if it ended by itself.
    pub cut: Option<RunEnd>,
}

impl ProgramExit {
    /// Returns how the run ended, as far as the program itself tells.
    pub fn into_run_end(self) -> RunEnd {
        match (self.cut, self.code) {
            (Some(cut), _) => cut,
            (None, 0) => RunEnd::Well,
            (None, code) => RunEnd::Badly { code, last_lines: self.last_lines },
        }
    }
}

impl AgentProgram<'_> {
    fn not_started(&self, why: &dyn std::fmt::Display) -> AgentError {
        AgentError::NotStarted { name: self.name.to_owned(), why: why.to_string() }
    }

    pub async fn run_supervised(
        &self,
        place: &WorkDir,
        cancel: watch::Receiver<Option<CancelReason>>,
        listener: &mut dyn OutputListener,
    ) -> Result<ProgramExit, AgentError> {
        let variables = agent_variables(place, self.env);
        self.run_at(place.path(), place.run_location(), variables, cancel, listener).await
    }

    /// Runs the program in a directory, with exactly these variables and the mark of its run.
    pub async fn run_at(
        &self,
        cwd: &Path,
        location: &RunLocation,
        mut env: BTreeMap<String, String>,
        mut cancel: watch::Receiver<Option<CancelReason>>,
        listener: &mut dyn OutputListener,
    ) -> Result<ProgramExit, AgentError> {
        let nonce = Nonce::new().to_string();
        env.insert(RUN_MARK_VARIABLE.to_owned(), nonce.clone());
        let (command, cwd, input) = (self.command.clone(), cwd.to_owned(), self.input.clone());
        let order = SupervisorRequest { command, env, cwd, input, place: location.clone(), nonce };
        if !order.cwd.is_dir() {
            return Err(AgentError::Moved(order.cwd));
        }
        let program = supervisor_program().map_err(|error| self.not_started(&error))?;
        let mut command = std::process::Command::new(program);
        command.arg("supervise").env_clear().process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = tokio::process::Command::from(command).spawn().map_err(|error| self.not_started(&error))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(control), Some(mut stdout), Some(mut stderr)) = pipes else {
            return Err(self.not_started(&"its pipes are missing"));
        };
        let mut line = serde_json::to_vec(&order).map_err(|error| self.not_started(&error))?;
        line.push(b'\n');
        let mut complaints = TextTail::new(MAX_STDERR_BYTES);
        let (words, spoken) = tokio::io::duplex(INPUT_BUFFER_BYTES);
        let (enough, mut heard_enough) = oneshot::channel();
        // Dropping this asks the supervisor to end the run.
        let mut speaking = Some(Box::pin(forward_input(control, line, spoken)));
        // The reason for ending the run early, whether all relevant output was read, and when the end was
        // requested.
        let (mut cut, mut enough_heard, mut asked_at) = (None, false, None::<Instant>);
        // The time at which the end is requested at the latest.
        let mut last_call = Instant::now() + self.timeout;
        let mut forced = false;
        let reading = async {
            let hearing = async {
                let patience = listener.listen_to_output(&mut stdout, words).await;
                // The receiver may be gone.
                let _ = enough.send(patience);
                drain_output(&mut stdout, &mut TextTail::new(0)).await;
            };
            tokio::join!(hearing, drain_output(&mut stderr, &mut complaints));
        };
        let mut reading = Box::pin(reading);
        let mut all_read = false;
        let status = loop {
            tokio::select! {
                // A supervisor that does not end the run in time is killed, and the run is ended here.
                () = sleep_until(asked_at.unwrap_or(last_call) + SUPERVISOR_EXIT_TIMEOUT), if asked_at.is_some() && !forced => {
                    forced = true;
                    child.start_kill().map_err(|error| self.not_started(&error))?;
                }
                status = child.wait() => break status.map_err(|error| self.not_started(&error))?,
                () = &mut reading, if !all_read => all_read = true,
                Ok(patience) = &mut heard_enough, if !enough_heard => {
                    enough_heard = true;
                    if let Some(patience) = patience {
                        last_call = last_call.min(Instant::now() + patience);
                    }
                }
                Some(never) = async { Some(speaking.as_mut()?.await) } => match never {},
                wish = cancel.wait_for(Option::is_some), if cut.is_none() && !enough_heard => {
                    cut = wish.ok().and_then(|wish| *wish).map(RunEnd::Cancelled);
                    last_call = last_call.min(Instant::now() + self.courtesy);
                }
                () = sleep_until(last_call), if speaking.is_some() => {
                    if cut.is_none() && !enough_heard {
                        cut = Some(RunEnd::TimedOut);
                    }
                    (speaking, asked_at) = (None, Some(Instant::now()));
                }
            }
        };
        if status.code().is_none() {
            // The supervisor, which would have ended the agent and its descendants, was killed.
            end_run(&order.nonce).await;
            order.place.locks.wait_for_runs(KILLED_EXIT_TIMEOUT).await.map_err(|error| self.not_started(&error))?;
        }
        // No supervised process has the other end any more; processes that hid from us are not waited for.
        if !all_read {
            let _ = tokio::time::timeout(OUTPUT_DRAIN_TIMEOUT, &mut reading).await;
        }
        drop(reading);
        let code = status.code().unwrap_or(1);
        let (complaints, cut_off) = complaints.into_text();
        // A line that was cut may contain half of a secret.
        let whole = if cut_off > 0 { complaints.split_once('\n').map_or("", |(_, rest)| rest) } else { &complaints };
        let last_lines = last_lines(whole);
        match (code, last_lines.strip_prefix(&supervisor_error_prefix(&order.nonce))) {
            (code, Some(_)) if code == i32::from(EXIT_CODE_MOVED) => Err(AgentError::Moved(order.cwd)),
            (code, Some(why)) if code == i32::from(EXIT_CODE_NOT_STARTED) => Err(self.not_started(&why)),
            _ => Ok(ProgramExit { code, last_lines, cut }),
        }
    }
}

/// Sends the request, then the driver's input. Never ends: closing the pipe would end the program.
async fn forward_input(mut control: ChildStdin, order: Vec<u8>, mut spoken: DuplexStream) -> Infallible {
    // A supervisor that does not read has exited; its exit status tells why.
    if control.write_all(&order).await.is_ok() {
        let _ = tokio::io::copy(&mut spoken, &mut control).await;
    }
    std::future::pending().await
}

/// Reads all output, so that the agent never blocks on it, and keeps the last part.
async fn drain_output(from: &mut (impl AsyncRead + Unpin), kept: &mut TextTail) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        kept.push_bytes(&buffer[..count]);
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
