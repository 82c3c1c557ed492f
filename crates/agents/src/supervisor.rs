//! Starts one agent and ends everything descended from it.
//!
//! A program of its own (`grove supervise`), because it must outlive the server that is killed, for
//! the moment that it takes to end the agent. What descends from the agent and loses its parent
//! becomes a child of this process, also what began a session of its own; when the agent ends, or
//! the server says so or is gone, all of it is asked to end and then ended.
//!
//! It reads one line of JSON, the [`Order`], from its standard input, which stays open: its end is
//! the wish to stop. What comes behind the order is for an agent that is spoken to while it runs. The
//! agent's output goes straight to the server. The exit code is the agent's.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use grove_environments::ready::Place;
use grove_git::processes::{Process, RUN_MARK};
use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, getppid, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal, wait,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

/// The exit code of an agent that could not be started; why is on standard error.
pub const NOT_STARTED: u8 = 250;

/// The exit code when the environment was moved before the agent could be started in it.
pub const MOVED: u8 = 251;

/// How long an agent that was asked to end may take.
const GRACE: Duration = Duration::from_secs(4);

/// How long what an agent leaves behind is hunted.
const STUBBORN: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub input: Input,
    pub place: Place,
    /// Tells our own words on standard error from whatever the agent says there.
    pub nonce: String,
}

/// What an agent reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Input {
    Nothing,
    Text(String),
    /// Whatever the server says while it runs.
    Live,
}

/// What the hidden subcommand does.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(2).collect();
    if let [word, nonce, supervisor, program, rest @ ..] = arguments.as_slice()
        && word == BECOME
    {
        return become_agent(&nonce.to_string_lossy(), supervisor, program, rest);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map(|runtime| runtime.block_on(supervise())) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) | Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What our own words on standard error begin with.
pub fn complaint(nonce: &str) -> String {
    format!("grove supervise {nonce}: ")
}

fn not_started(nonce: &str, why: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("{}{why}", complaint(nonce));
    ExitCode::from(NOT_STARTED)
}

/// The word behind which the agent's own process is started.
const BECOME: &str = "become";

/// Becomes the agent, which the kernel ends if its supervisor is killed. Only a process can wish that
/// for itself, and the wish outlasts becoming another program.
fn become_agent(nonce: &str, supervisor: &OsStr, program: &OsStr, arguments: &[OsString]) -> ExitCode {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return not_started(nonce, &error);
    }
    // Killed before the wish was made?
    let parent = getppid().map(|pid| pid.as_raw_nonzero().to_string()).unwrap_or_default();
    if supervisor != OsStr::new(&parent) {
        return not_started(nonce, &"its supervisor is gone");
    }
    let error = Command::new(program).args(arguments).exec();
    not_started(nonce, &format!("{}: {error}", program.display()))
}

/// Ends every process that belongs to a run which nobody supervises any more: killed together with
/// whoever would have ended it. How many there were.
pub fn end_unsupervised() -> usize {
    let all = Process::all();
    let parent_of: HashMap<u32, u32> = all.iter().map(|process| (process.id, process.parent)).collect();
    let supervised = |process: &Process| {
        std::iter::successors(Some(process.id), |process| parent_of.get(process).copied()).any(is_supervisor)
    };
    let marked = all.iter().filter(|process| process.is_marked(RUN_MARK, ""));
    let orphans: Vec<&Process> = marked.filter(|process| !supervised(process)).collect();
    orphans.iter().for_each(|process| process.signal(Signal::KILL));
    orphans.len()
}

/// Whether a process supervises a run.
pub fn is_supervisor(process: u32) -> bool {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip(1);
    words.next() == Some(b"supervise") && words.next().is_none_or(|word| word != BECOME.as_bytes())
}

async fn supervise() -> io::Result<ExitCode> {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut control = BufReader::new(tokio::net::unix::pipe::Receiver::from_owned_fd(stdin)?);
    let mut line = String::new();
    control.read_line(&mut line).await?;
    let order: Order = serde_json::from_str(&line).map_err(io::Error::other)?;
    // Before the first child: what loses its parent comes to us.
    set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut asked = signal(SignalKind::terminate())?;
    let mut children = signal(SignalKind::child())?;
    let Some(_locks) = order.place.hold(&order.cwd)? else {
        eprintln!("{}moved", complaint(&order.nonce));
        return Ok(ExitCode::from(MOVED));
    };
    let (agent, mut words) = match start(&order) {
        Ok(started) => started,
        Err(error) => return Ok(not_started(&order.nonce, &error)),
    };
    // Set when it was asked to end.
    let mut kill_at = None::<Instant>;
    let (mut ended, mut ended_at) = (None::<ExitStatus>, None::<Instant>);
    let mut spoken = vec![0; 16 * 1024];
    loop {
        while let Some((pid, status)) = reap() {
            if pid == agent {
                ended = Some(status);
            }
        }
        if let Some(status) = ended {
            // Nothing of it stays behind. That we have no child is proof; that none was seen is not,
            // since one may fork ahead of whoever looks.
            end_descendants();
            let none_left = wait(WaitOptions::NOHANG).is_err_and(|error| error == rustix::io::Errno::CHILD);
            // Somebody else's process, which we may not end, is not waited for.
            let first = *ended_at.get_or_insert_with(Instant::now);
            if none_left || first.elapsed() > STUBBORN {
                return Ok(code_of(status));
            }
        }
        if kill_at.is_some_and(|at| Instant::now() >= at) {
            end_descendants();
        }
        // Woken by children that end; looked at anyway while something is to be ended.
        let pause =
            if ended.is_some() || kill_at.is_some() { Duration::from_millis(5) } else { Duration::from_secs(3600) };
        tokio::select! {
            _ = children.recv() => {}
            _ = asked.recv(), if kill_at.is_none() => kill_at = Some(stop(agent)),
            read = control.read(&mut spoken), if kill_at.is_none() => match read {
                Ok(count @ 1..) => words = words.filter(|words| words.send(spoken[..count].to_vec()).is_ok()),
                // The server closed it, or is gone.
                Ok(0) | Err(_) => kill_at = Some(stop(agent)),
            },
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Asks the agent to end, and says when it will be ended.
fn stop(agent: Pid) -> Instant {
    // It may have ended already.
    let _ = kill_process_group(agent, Signal::TERM);
    Instant::now() + GRACE
}

/// Starts the agent; and where to put what it is told while it runs.
fn start(order: &Order) -> io::Result<(Pid, Option<mpsc::Sender<Vec<u8>>>)> {
    if order.command.is_empty() {
        return Err(io::Error::other("no program was named"));
    }
    let stdin = if matches!(order.input, Input::Nothing) { Stdio::null() } else { Stdio::piped() };
    let mut child = Command::new("/proc/self/exe")
        .args(["supervise", BECOME, &order.nonce, &std::process::id().to_string()])
        .args(&order.command)
        .env_clear()
        .envs(&order.env)
        .current_dir(&order.cwd)
        .process_group(0)
        .stdin(stdin)
        .spawn()?;
    let (words, spoken) = mpsc::channel::<Vec<u8>>();
    if let Input::Text(prompt) = &order.input {
        words.send(prompt.clone().into_bytes()).map_err(io::Error::other)?;
    }
    if let Some(mut pipe) = child.stdin.take() {
        // An agent that does not read to the end has its reasons.
        std::thread::spawn(move || spoken.iter().all(|words| io::Write::write_all(&mut pipe, &words).is_ok()));
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the agent has no process id"))?;
    Ok((pid, matches!(order.input, Input::Live).then_some(words)))
}

/// One child that has ended, whoever started it.
fn reap() -> Option<(Pid, ExitStatus)> {
    let (pid, status) = wait(WaitOptions::NOHANG).ok()??;
    Some((pid, ExitStatus::from_raw(status.as_raw())))
}

/// Ends all that descends from us, with their process groups: what forks ahead of us is in one of them.
fn end_descendants() {
    let ours = getpgrp();
    for process in descendants() {
        // Each may have ended meanwhile.
        if let Some(group) = Pid::from_raw(process.group).filter(|group| *group != ours) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        process.signal(Signal::KILL);
    }
}

fn descendants() -> Vec<Process> {
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    for process in Process::all().into_iter().filter(|process| !process.ended) {
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
