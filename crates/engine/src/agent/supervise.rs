//! Starts one agent and ends everything descended from it.
//!
//! A program of its own (`grove supervise`), because it must outlive the server that is killed, for
//! the moment that it takes to end the agent. What descends from the agent and loses its parent
//! becomes a child of this process, also what began a session of its own; when the agent ends, or
//! the server says so or is gone, all of it is asked to end and then ended.
//!
//! It reads one line of JSON, the [`Order`], from its standard input, which stays open: its end is
//! the wish to stop. The agent's output goes straight to the server. The exit code is the agent's.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use grove_git::lock::Locks;
use grove_git::processes::marked_runs;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, getppid, kill_process, kill_process_group, set_child_subreaper,
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
pub const GRACE: Duration = Duration::from_secs(4);

/// How long what an agent leaves behind is hunted.
const STUBBORN: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    /// What the agent reads; without it, nothing.
    pub stdin: Option<String>,
    pub place: Place,
    /// Tells our own words on standard error from whatever the agent says there.
    pub nonce: String,
}

/// Where a run is: the locks that the agent and all that it starts hold, and what its directory is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    pub shared: PathBuf,
    pub alone: PathBuf,
    pub device: u64,
    pub inode: u64,
}

impl Place {
    /// A directory as it is now.
    pub fn of(directory: &Path, locks: Locks) -> io::Result<Self> {
        let meta = directory.symlink_metadata()?;
        Ok(Self { shared: locks.shared, alone: locks.alone, device: meta.dev(), inode: meta.ino() })
    }

    /// Ends what is left of a run there, at once.
    pub async fn end_leftovers(&self) -> io::Result<()> {
        let (folder, name) = (self.shared.parent().unwrap_or(&self.shared), self.shared.file_name());
        let name = name.unwrap_or_default().to_string_lossy();
        Locks::in_folder(folder, &name).wait_for_runs(Duration::from_secs(1)).await
    }
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
    let mut ended = 0;
    let (marked, parent_of) = marked_runs();
    for process in marked {
        let mut ancestors = std::iter::successors(Some(process), |process| parent_of.get(process).copied());
        if ancestors.any(is_supervisor) {
            continue;
        }
        if let Some(pid) = Pid::from_raw(process.cast_signed()) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
            ended += 1;
        }
    }
    ended
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
    let Some(_locks) = hold(&order.place, &order.cwd)? else {
        eprintln!("{}moved", complaint(&order.nonce));
        return Ok(ExitCode::from(MOVED));
    };
    let agent = match start(&order) {
        Ok(agent) => agent,
        Err(error) => return Ok(not_started(&order.nonce, &error)),
    };
    let (mut stopping, mut kill_at) = (false, None::<Instant>);
    let (mut ended, mut ended_at) = (None::<ExitStatus>, None::<Instant>);
    let mut nothing = [0; 64];
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
        let pause = if ended.is_some() || stopping { Duration::from_millis(5) } else { Duration::from_secs(3600) };
        tokio::select! {
            _ = children.recv() => {}
            _ = asked.recv(), if !stopping => (stopping, kill_at) = stop(agent),
            read = control.read(&mut nothing), if !stopping => match read {
                Ok(1..) => {}
                // The server closed it, or is gone.
                Ok(0) | Err(_) => (stopping, kill_at) = stop(agent),
            },
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Asks the agent to end, and says when it will be ended.
fn stop(agent: Pid) -> (bool, Option<Instant>) {
    // It may have ended already.
    let _ = kill_process_group(agent, Signal::TERM);
    (true, Some(Instant::now() + GRACE))
}

/// Takes the locks, for us and for all that we start; whoever moves an environment must have them
/// alone, so that from here on it stays where it is. `None`: it is not there, or somebody is moving it.
fn hold(place: &Place, cwd: &Path) -> io::Result<Option<[File; 3]>> {
    let open = |path: &PathBuf| OpenOptions::new().create(true).truncate(false).write(true).open(path);
    // One that is inherited, and one that an agent cannot let go.
    let (ours, shared, alone) = (open(&place.shared)?, open(&place.shared)?, open(&place.alone)?);
    let (share, have) = (FlockOperation::NonBlockingLockShared, FlockOperation::NonBlockingLockExclusive);
    for (file, kind, inherited) in [(&ours, share, false), (&shared, share, true), (&alone, have, true)] {
        match flock(file, kind) {
            Ok(()) if inherited => fcntl_setfd(file, FdFlags::empty())?,
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    let same = cwd.symlink_metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == (place.device, place.inode));
    Ok(same.then_some([ours, shared, alone]))
}

fn start(order: &Order) -> io::Result<Pid> {
    if order.command.is_empty() {
        return Err(io::Error::other("no program was named"));
    }
    let stdin = if order.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = Command::new("/proc/self/exe")
        .args(["supervise", BECOME, &order.nonce, &std::process::id().to_string()])
        .args(&order.command)
        .env_clear()
        .envs(&order.env)
        .current_dir(&order.cwd)
        .process_group(0)
        .stdin(stdin)
        .spawn()?;
    if let (Some(mut pipe), Some(prompt)) = (child.stdin.take(), order.stdin.clone()) {
        std::thread::spawn(move || {
            // An agent that does not read its prompt to the end has its reasons.
            let _ = io::Write::write_all(&mut pipe, prompt.as_bytes());
        });
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the agent has no process id"))
}

/// One child that has ended, whoever started it.
fn reap() -> Option<(Pid, ExitStatus)> {
    let (pid, status) = wait(WaitOptions::NOHANG).ok()??;
    Some((pid, ExitStatus::from_raw(status.as_raw())))
}

/// Ends all that descends from us, with their process groups: what forks ahead of us is in one of them.
fn end_descendants() {
    let ours = getpgrp();
    for (pid, group) in descendants() {
        // Each may have ended meanwhile.
        if let Some(group) = group.filter(|group| *group != ours) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// What descends from us, and the process group of each.
fn descendants() -> Vec<(Pid, Option<Pid>)> {
    let mut children: HashMap<i32, Vec<(i32, Option<Pid>)>> = HashMap::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else { continue };
        // The name, in parentheses, may hold anything.
        let mut fields = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default().split(' ');
        // What has ended only waits to be reaped; unless only its first thread has.
        let threads = || std::fs::read_dir(process.path().join("task")).map_or(0, Iterator::count);
        match fields.next() {
            None => continue,
            Some("Z" | "X") if threads() <= 1 => continue,
            Some(_) => {}
        }
        let parent = fields.next().and_then(|parent| parent.parse().ok());
        let group = fields.next().and_then(|group| group.parse().ok()).and_then(Pid::from_raw);
        if let Some(parent) = parent {
            children.entry(parent).or_default().push((id, group));
        }
    }
    let mut open = vec![std::process::id().cast_signed()];
    let mut found = Vec::new();
    while let Some(parent) = open.pop() {
        for &(child, group) in children.get(&parent).map(Vec::as_slice).unwrap_or_default() {
            open.push(child);
            found.extend(Pid::from_raw(child).map(|pid| (pid, group)));
        }
    }
    found
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
