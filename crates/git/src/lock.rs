//! File locks inside a repository's common directory, among Grovekeeper's own processes.
//!
//! The kernel releases them when their holder ends, however it ends, so none is ever stale.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use grove_model::EnvironmentId;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::processes::signal_all;

/// Held until dropped.
#[derive(Debug)]
pub struct FileLock(#[expect(dead_code, reason = "the open file is the lock")] File);

/// Waits for the lock `name` of the repository. Polls, so that a caller that gives up leaves no
/// thread behind.
pub async fn repository_lock(common_dir: &Path, name: &str) -> io::Result<FileLock> {
    wait_for(open(&grove_dir(common_dir)?.join(name))?).await
}

/// The same with a file that the caller names.
pub async fn file_lock(path: &Path) -> io::Result<FileLock> {
    wait_for(open(path)?).await
}

/// The locks of a place where agents work, in files beside each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Locks {
    /// Held alone by whoever moves the place, shared by everything that runs there.
    shared: PathBuf,
    /// Held by every process of an agent's run, and nobody else.
    alone: PathBuf,
    /// Held by whoever's turn it is.
    turn: PathBuf,
}

impl Locks {
    pub fn of_environment(common_dir: &Path, id: EnvironmentId) -> io::Result<Self> {
        Ok(Self::in_folder(&locks_dir(common_dir)?, &id.to_string()))
    }

    pub fn in_folder(folder: &Path, name: &str) -> Self {
        let file = |ending: &str| folder.join(format!("{name}{ending}"));
        Self { shared: file(""), alone: file(".run"), turn: file(".turn") }
    }

    /// Takes their files away, when nobody will ever come there again.
    pub fn forget(&self) {
        for file in [&self.shared, &self.alone, &self.turn] {
            // Not all of them were made.
            let _ = std::fs::remove_file(file);
        }
    }

    /// Waits for the turn: one agent at a time works there.
    pub async fn turn(&self) -> io::Result<FileLock> {
        wait_for(open(&self.turn)?).await
    }

    /// Takes what a run holds, for this process and for all that it starts; whoever moves the place must
    /// have it alone. `None`: somebody is moving it, or something else runs there.
    pub fn hold(&self) -> io::Result<Option<RunLocks>> {
        // One that is inherited, and one that an agent cannot let go.
        let locks = RunLocks { ours: open(&self.shared)?, shared: open(&self.shared)?, alone: open(&self.alone)? };
        let (share, have) = (FlockOperation::NonBlockingLockShared, FlockOperation::NonBlockingLockExclusive);
        let RunLocks { ours, shared, alone } = &locks;
        for (file, kind) in [(ours, share), (shared, share), (alone, have)] {
            match flock(file, kind) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        let_inherit(shared)?;
        let_inherit(alone)?;
        Ok(Some(locks))
    }

    /// Waits until nothing of an earlier run is left; what stays longer than `patience` is ended, since
    /// nobody is there any more who would.
    pub async fn wait_for_runs(&self, patience: Duration) -> io::Result<()> {
        let file = open(&self.alone)?;
        let began = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(flock(&file, FlockOperation::Unlock)?),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if began.elapsed() > patience {
                signal_all(holders(&file, "WRITE")?, Signal::KILL);
            }
            if began.elapsed() > patience * 2 {
                return Err(io::Error::other("something of an earlier run does not end"));
            }
            // Looking at every process is dear.
            let pause = if began.elapsed() > patience { 200 } else { 20 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
}

/// What the processes of a run hold, until this value goes and the last of them ends.
#[derive(Debug)]
pub struct RunLocks {
    ours: File,
    shared: File,
    alone: File,
}

fn let_inherit(file: &File) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?)
}

async fn wait_for(file: File) -> io::Result<FileLock> {
    let mut pause = Duration::from_millis(1);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(FileLock(file)),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Our own directory inside the repository's: locks, staging, time stamps. Git ignores it.
pub(crate) fn grove_dir(common_dir: &Path) -> io::Result<PathBuf> {
    let dir = common_dir.join("grove");
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn locks_dir(common_dir: &Path) -> io::Result<PathBuf> {
    let dir = grove_dir(common_dir)?.join("locks");
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}

/// Ends what is left of a run whose supervisor (`is_supervisor`, by process id) is gone, so that
/// nobody is there any more who would. Whether there was anything.
pub fn end_orphans(common_dir: &Path, id: EnvironmentId, is_supervisor: impl Fn(u32) -> bool) -> io::Result<bool> {
    let path = Locks::of_environment(common_dir, id)?.alone;
    if !path.exists() {
        return Ok(false);
    }
    let file = open(&path)?;
    // Nobody has it: the usual case, and no reason to look at every process.
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return Ok(false);
    }
    let left = holders(&file, "WRITE")?;
    if left.is_empty() || left.iter().any(|process| is_supervisor(*process)) {
        return Ok(false);
    }
    signal_all(left, Signal::KILL);
    Ok(true)
}

/// The other processes that hold a lock of this kind on a file.
fn holders(file: &File, kind: &str) -> io::Result<Vec<u32>> {
    let ours = file.metadata()?;
    let same =
        |path: PathBuf| std::fs::metadata(path).is_ok_and(|meta| meta.dev() == ours.dev() && meta.ino() == ours.ino());
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc")?.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if id == std::process::id() || is_grove(id) {
            continue;
        }
        // A process whose first thread has ended shows its files at the others.
        let threads = std::fs::read_dir(process.path().join("task")).into_iter().flatten().flatten();
        let holds = |thread: PathBuf| {
            let mut open = std::fs::read_dir(thread.join("fd")).into_iter().flatten().flatten();
            open.any(|fd| {
                // Whoever only has it open does not hold it.
                let info = || std::fs::read_to_string(thread.join("fdinfo").join(fd.file_name())).unwrap_or_default();
                let lock = |line: &str| line.starts_with("lock:") && line.contains("FLOCK") && line.contains(kind);
                same(fd.path()) && info().lines().any(lock)
            })
        };
        let mut places = std::iter::once(process.path()).chain(threads.map(|thread| thread.path()));
        if places.any(holds) {
            found.push(id);
        }
    }
    Ok(found)
}

/// Whether a process is another grove that only looks, such as a server: never one to be ended. What
/// runs for an agent, `grove supervise`, is.
fn is_grove(process: u32) -> bool {
    let program = |path: String| std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let ours = program("/proc/self/exe".to_owned());
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let supervises = line.split(|byte| *byte == 0).nth(1) == Some(b"supervise");
    ours.is_some() && program(format!("/proc/{process}/exe")) == ours && !supervises
}

/// The lock of one environment. Commands that run there share it and their children inherit it, so
/// it is held for as long as any of them lives; whoever moves the environment holds it alone.
#[derive(Debug)]
pub struct EnvironmentLock {
    file: File,
}

/// Who has an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// We have it, alone.
    Us,
    /// Commands run there.
    Commands(Vec<u32>),
    /// Somebody moves it at this moment.
    Mover,
}

impl EnvironmentLock {
    pub fn open(common_dir: &Path, id: EnvironmentId) -> io::Result<Self> {
        Ok(Self { file: open(&Locks::of_environment(common_dir, id)?.shared)? })
    }

    /// Tries to have it alone.
    pub fn try_alone(&self) -> io::Result<Holder> {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Holder::Us),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error.into()),
        }
        match flock(&self.file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                flock(&self.file, FlockOperation::Unlock)?;
                Ok(Holder::Commands(holders(&self.file, "READ")?))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(Holder::Mover),
            Err(error) => Err(error.into()),
        }
    }

    /// Shares it with other commands; `false`: somebody moves the environment.
    pub fn try_share(&self) -> io::Result<bool> {
        match flock(&self.file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets the programs that this process becomes or starts inherit it.
    pub fn let_inherit(&self) -> io::Result<()> {
        let_inherit(&self.file)
    }

    /// Ends the commands that run in the environment: asked first, then not asked. Whether we have
    /// it alone now.
    pub async fn end_commands(&self) -> io::Result<bool> {
        for (signal, tries) in [(Signal::TERM, 150), (Signal::KILL, 150)] {
            for _ in 0..tries {
                match self.try_alone()? {
                    Holder::Us => return Ok(true),
                    Holder::Mover => {}
                    Holder::Commands(processes) => signal_all(processes, signal),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(false)
    }
}
