//! Runs an agent's program under its supervisor, while a driver listens to it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use grove_environments::ready::WorkDir;
use grove_git::processes::{RUN_MARK, end_run};
use grove_model::Nonce;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::agent::{AgentError, Cancel, Ended, supervisor};
use crate::environment::environment;
use crate::supervisor::{Input, MOVED, NOT_STARTED, Order, complaint};
use crate::tail::Tail;

/// What is kept of its complaints.
const COMPLAINTS: usize = 16 * 1024;
/// How long a supervisor may take to end a run.
const OVERDUE: Duration = Duration::from_secs(7);
/// What a killed supervisor leaves is not waited for much.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How long output that nobody should be writing any more is waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What a driver has said and the program has not read yet.
const UNREAD: usize = 64 * 1024;

/// Listens to a program. What it has heard is in it when the program has ended, also when it was
/// ended in the middle of a word.
#[async_trait]
pub(super) trait Listen: Send {
    /// Reads what the program says, and answers where it is spoken to ([`Input::Live`]). Returns when
    /// there is no more, or when what there is suffices: then how long the program may take to end by
    /// itself. `None`: as long as it likes.
    async fn listen(&mut self, from: &mut ChildStdout, to: DuplexStream) -> Option<Duration>;
}

/// A program that is to be run.
pub(super) struct Program<'a> {
    /// The agent's name.
    pub name: &'a str,
    pub command: Vec<String>,
    pub env: &'a BTreeMap<String, String>,
    pub input: Input,
    pub timeout: Duration,
    /// How long whoever listens may take to end a run in words before it is ended.
    pub courtesy: Duration,
}

/// How it went.
pub(super) struct Exit {
    pub code: i32,
    /// The end of what it complained about.
    pub last_lines: String,
    /// Why it was ended; `None`: it ended by itself.
    pub cut: Option<Ended>,
}

impl Exit {
    /// How the run ended, as far as the program itself tells.
    pub fn ended(self) -> Ended {
        match (self.cut, self.code) {
            (Some(cut), _) => cut,
            (None, 0) => Ended::Well,
            (None, code) => Ended::Badly { code, last_lines: self.last_lines },
        }
    }
}

impl Program<'_> {
    fn not_started(&self, why: &dyn std::fmt::Display) -> AgentError {
        AgentError::NotStarted { name: self.name.to_owned(), why: why.to_string() }
    }

    pub async fn run(
        &self,
        place: &WorkDir,
        mut cancel: watch::Receiver<Option<Cancel>>,
        listener: &mut dyn Listen,
    ) -> Result<Exit, AgentError> {
        let nonce = Nonce::new().to_string();
        let mut env = environment(place, self.env);
        env.insert(RUN_MARK.to_owned(), nonce.clone());
        let (command, cwd, input) = (self.command.clone(), place.path().to_owned(), self.input.clone());
        let order = Order { command, env, cwd, input, place: place.place().clone(), nonce };
        if !order.cwd.is_dir() {
            return Err(AgentError::Moved(order.cwd));
        }
        let program = supervisor().map_err(|error| self.not_started(&error))?;
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
        let mut complaints = Tail::new(COMPLAINTS);
        let (words, spoken) = tokio::io::duplex(UNREAD);
        let (enough, mut heard_enough) = oneshot::channel();
        // Dropped, it asks for the end.
        let mut speaking = Some(Box::pin(speak(control, line, spoken)));
        // Why it is cut short, whether all that matters was heard, and since when the end is asked for.
        let (mut cut, mut enough_heard, mut asked_at) = (None, false, None::<Instant>);
        // When the end is asked for, whatever happens until then.
        let mut last_call = Instant::now() + self.timeout;
        let mut forced = false;
        let reading = async {
            let hearing = async {
                let patience = listener.listen(&mut stdout, words).await;
                // Nobody may care any more.
                let _ = enough.send(patience);
                drain(&mut stdout, &mut Tail::new(0)).await;
            };
            tokio::join!(hearing, drain(&mut stderr, &mut complaints));
        };
        let mut reading = Box::pin(reading);
        let mut all_read = false;
        let status = loop {
            tokio::select! {
                // A supervisor that does not do its work is ended, and its work is done here.
                () = sleep_until(asked_at.unwrap_or(last_call) + OVERDUE), if asked_at.is_some() && !forced => {
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
                    cut = wish.ok().and_then(|wish| *wish).map(Ended::Cancelled);
                    last_call = last_call.min(Instant::now() + self.courtesy);
                }
                () = sleep_until(last_call), if speaking.is_some() => {
                    if cut.is_none() && !enough_heard {
                        cut = Some(Ended::TimedOut);
                    }
                    (speaking, asked_at) = (None, Some(Instant::now()));
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
        drop(reading);
        let code = status.code().unwrap_or(1);
        let (complaints, cut_off) = complaints.into_text();
        // A line that was cut may hold half a secret.
        let whole = if cut_off > 0 { complaints.split_once('\n').map_or("", |(_, rest)| rest) } else { &complaints };
        let last_lines = last_lines(whole);
        match (code, last_lines.strip_prefix(&complaint(&order.nonce))) {
            (code, Some(_)) if code == i32::from(MOVED) => Err(AgentError::Moved(order.cwd)),
            (code, Some(why)) if code == i32::from(NOT_STARTED) => Err(self.not_started(&why)),
            _ => Ok(Exit { code, last_lines, cut }),
        }
    }
}

/// Hands the order over, then what a driver says. Never ends: its end would be the program's.
async fn speak(mut control: ChildStdin, order: Vec<u8>, mut spoken: DuplexStream) -> Infallible {
    // A supervisor that does not read has ended, and how is told by its status.
    if control.write_all(&order).await.is_ok() {
        let _ = tokio::io::copy(&mut spoken, &mut control).await;
    }
    std::future::pending().await
}

/// Reads all there is, so that the agent never waits for us; keeps the end of it.
async fn drain(from: &mut (impl AsyncRead + Unpin), kept: &mut Tail) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        kept.push(&buffer[..count]);
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
