//! Starts one agent and ends all its descendants.
//!
//! This is a separate program (`grove supervise`), because it must survive the server being killed for the
//! moment that it takes to end the agent. A descendant of the agent that loses its parent becomes a child of
//! this process, even if it started its own session. When the agent ends, or the server requests it or is
//! gone, all descendants are asked to end and then killed.
//!
//! It reads one line of JSON, the [`SupervisorRequest`], from its standard input, which stays open: closing
//! it is the request to stop. Any data after the request is input for an agent that gets input while it
//! runs. The agent's output goes directly to the server. The exit code is the agent's.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use grove_environments::scripts::RunLocation;
use grove_git::processes::{ProcessInfo, RUN_MARK_VARIABLE};
use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, getppid, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal, wait,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

/// The exit code if the agent could not be started; the reason is on standard error.
pub const EXIT_CODE_NOT_STARTED: u8 = 250;

/// The exit code if the environment was moved before the agent could be started in it.
pub const EXIT_CODE_MOVED: u8 = 251;

/// The time that an agent has to end after it was asked to.
const AGENT_STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// The time during which remaining descendants of an agent are killed.
const DESCENDANTS_KILL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
pub struct SupervisorRequest {
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub input: AgentInput,
    pub place: RunLocation,
    /// Distinguishes our own messages on standard error from those of the agent.
    pub nonce: String,
}

/// The standard input of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentInput {
    Nothing,
    Text(String),
    /// Everything that the server sends while the agent runs.
    Live,
}

/// Runs the hidden subcommand.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(2).collect();
    if let [word, nonce, supervisor, program, rest @ ..] = arguments.as_slice()
        && word == BECOME_AGENT_ARGUMENT
    {
        return become_agent(&nonce.to_string_lossy(), supervisor, program, rest);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map(|runtime| runtime.block_on(run_supervisor())) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) | Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the prefix of our own messages on standard error.
pub fn supervisor_error_prefix(nonce: &str) -> String {
    format!("grove supervise {nonce}: ")
}

fn not_started(nonce: &str, why: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("{}{why}", supervisor_error_prefix(nonce));
    ExitCode::from(EXIT_CODE_NOT_STARTED)
}

/// The argument that starts the agent's own process.
const BECOME_AGENT_ARGUMENT: &str = "become";

/// Becomes the agent, which the kernel kills if its supervisor is killed. Only a process itself can request
/// this, and the request survives `exec`.
fn become_agent(nonce: &str, supervisor: &OsStr, program: &OsStr, arguments: &[OsString]) -> ExitCode {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return not_started(nonce, &error);
    }
    // Detects a supervisor that was killed before the request was made.
    let parent = getppid().map(|pid| pid.as_raw_nonzero().to_string()).unwrap_or_default();
    if supervisor != OsStr::new(&parent) {
        return not_started(nonce, &"its supervisor is gone");
    }
    let error = Command::new(program).args(arguments).exec();
    not_started(nonce, &format!("{}: {error}", program.display()))
}

/// Ends every process of a run whose supervisor was killed together with the server. Returns the number of
/// such processes.
pub fn end_unsupervised() -> usize {
    let all = ProcessInfo::list_all();
    let parent_of: HashMap<u32, u32> = all.iter().map(|process| (process.id, process.parent)).collect();
    let supervised = |process: &ProcessInfo| {
        std::iter::successors(Some(process.id), |process| parent_of.get(process).copied()).any(is_supervisor)
    };
    let marked = all.iter().filter(|process| process.is_marked(RUN_MARK_VARIABLE, ""));
    let orphans: Vec<&ProcessInfo> = marked.filter(|process| !supervised(process)).collect();
    orphans.iter().for_each(|process| process.send_signal(Signal::KILL));
    orphans.len()
}

/// Tells whether a process is the supervisor of a run.
pub fn is_supervisor(process: u32) -> bool {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip(1);
    words.next() == Some(b"supervise") && words.next().is_none_or(|word| word != BECOME_AGENT_ARGUMENT.as_bytes())
}

async fn run_supervisor() -> io::Result<ExitCode> {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut control = BufReader::new(tokio::net::unix::pipe::Receiver::from_owned_fd(stdin)?);
    let mut line = String::new();
    control.read_line(&mut line).await?;
    let order: SupervisorRequest = serde_json::from_str(&line).map_err(io::Error::other)?;
    // Set before the first child starts, so that every orphaned descendant becomes our child.
    set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut asked = signal(SignalKind::terminate())?;
    let mut children = signal(SignalKind::child())?;
    let Some(_locks) = order.place.hold_for_run(&order.cwd)? else {
        eprintln!("{}moved", supervisor_error_prefix(&order.nonce));
        return Ok(ExitCode::from(EXIT_CODE_MOVED));
    };
    let (agent, mut words) = match start_agent(&order) {
        Ok(started) => started,
        Err(error) => return Ok(not_started(&order.nonce, &error)),
    };
    // Set when the agent was asked to end.
    let mut kill_at = None::<Instant>;
    let (mut ended, mut ended_at) = (None::<ExitStatus>, None::<Instant>);
    let mut spoken = vec![0; 16 * 1024];
    loop {
        while let Some((pid, status)) = reap_child() {
            if pid == agent {
                ended = Some(status);
            }
        }
        if let Some(status) = ended {
            // No descendant may survive. Having no child proves that; a list of processes without one does
            // not, since a process may fork while the list is read.
            end_descendants();
            let none_left = wait(WaitOptions::NOHANG).is_err_and(|error| error == rustix::io::Errno::CHILD);
            // A process of another user, which we may not kill, is not waited for.
            let first = *ended_at.get_or_insert_with(Instant::now);
            if none_left || first.elapsed() > DESCENDANTS_KILL_TIMEOUT {
                return Ok(code_of(status));
            }
        }
        if kill_at.is_some_and(|at| Instant::now() >= at) {
            end_descendants();
        }
        // A child that ends wakes us; while processes remain to be ended, we also poll.
        let pause =
            if ended.is_some() || kill_at.is_some() { Duration::from_millis(5) } else { Duration::from_secs(3600) };
        tokio::select! {
            _ = children.recv() => {}
            _ = asked.recv(), if kill_at.is_none() => kill_at = Some(stop_agent(agent)),
            read = control.read(&mut spoken), if kill_at.is_none() => match read {
                Ok(count @ 1..) => words = words.filter(|words| words.send(spoken[..count].to_vec()).is_ok()),
                // The server closed the pipe or is gone.
                Ok(0) | Err(_) => kill_at = Some(stop_agent(agent)),
            },
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Asks the agent to end, and returns when it will be killed.
fn stop_agent(agent: Pid) -> Instant {
    // The agent may have ended already.
    let _ = kill_process_group(agent, Signal::TERM);
    Instant::now() + AGENT_STOP_TIMEOUT
}

/// Starts the agent. Returns its process id, and where to send input while it runs.
fn start_agent(order: &SupervisorRequest) -> io::Result<(Pid, Option<mpsc::Sender<Vec<u8>>>)> {
    if order.command.is_empty() {
        return Err(io::Error::other("no program was named"));
    }
    let stdin = if matches!(order.input, AgentInput::Nothing) { Stdio::null() } else { Stdio::piped() };
    let mut child = Command::new("/proc/self/exe")
        .args(["supervise", BECOME_AGENT_ARGUMENT, &order.nonce, &std::process::id().to_string()])
        .args(&order.command)
        .env_clear()
        .envs(&order.env)
        .current_dir(&order.cwd)
        .process_group(0)
        .stdin(stdin)
        .spawn()?;
    let (words, spoken) = mpsc::channel::<Vec<u8>>();
    if let AgentInput::Text(prompt) = &order.input {
        words.send(prompt.clone().into_bytes()).map_err(io::Error::other)?;
    }
    if let Some(mut pipe) = child.stdin.take() {
        // An agent may stop reading before its input ends.
        std::thread::spawn(move || spoken.iter().all(|words| io::Write::write_all(&mut pipe, &words).is_ok()));
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the agent has no process id"))?;
    Ok((pid, matches!(order.input, AgentInput::Live).then_some(words)))
}

/// Reaps one child that has ended, whichever process started it.
fn reap_child() -> Option<(Pid, ExitStatus)> {
    let (pid, status) = wait(WaitOptions::NOHANG).ok()??;
    Some((pid, ExitStatus::from_raw(status.as_raw())))
}

/// Kills all our descendants with their process groups: a process that forks meanwhile is in one of the
/// groups.
fn end_descendants() {
    let ours = getpgrp();
    for process in list_descendants() {
        // Each process may have ended meanwhile.
        if let Some(group) = Pid::from_raw(process.group).filter(|group| *group != ours) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        process.send_signal(Signal::KILL);
    }
}

fn list_descendants() -> Vec<ProcessInfo> {
    let mut children: HashMap<u32, Vec<ProcessInfo>> = HashMap::new();
    for process in ProcessInfo::list_all().into_iter().filter(|process| !process.ended) {
        children.entry(process.parent).or_default().push(process);
    }
    let (mut open, mut found) = (vec![std::process::id()], Vec::new());
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            open.push(child.id);
            found.push(child);
        }
    }
    found
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
