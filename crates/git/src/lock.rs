//! File locks inside a repository's common directory, among Grovekeeper's own processes.
//!
//! The kernel releases them when their holder ends, however it ends, so none is ever stale.
//!
//! The files of an environment that is gone for good are deleted, by a process that holds each of them
//! alone. Another process may have opened such a file before and lock it afterwards: it would hold a
//! file that no later process finds. So a lock counts only if its file is still at its path once it is
//! taken; otherwise the path is opened again.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use grove_model::EnvironmentId;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::processes::signal_all;

/// The time that commands have to end after a request, and again by force.
const COMMAND_END_TIMEOUT: Duration = Duration::from_secs(3);

/// A file lock that is held until the value is dropped.
#[derive(Debug)]
pub struct FileLock(#[expect(dead_code, reason = "the open file is the lock")] File);

/// Waits for the lock `name` of the repository. Polls, so that a caller that gives up leaves no
/// thread behind.
pub async fn repository_lock(common_dir: &Path, name: &str) -> io::Result<FileLock> {
    wait_for(&grove_dir(common_dir)?.join(name)).await
}

/// Waits for the lock in the file that the caller names. Polls, so that a caller that gives up
/// leaves no thread behind.
pub async fn file_lock(path: &Path) -> io::Result<FileLock> {
    wait_for(path).await
}

/// The lock files of an environment where agents work, next to each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LockFiles {
    /// Exclusive for the process that moves the environment, shared by everything that runs there.
    shared: PathBuf,
    /// Held by every process of an agent's run, and by no other process.
    alone: PathBuf,
    /// Held by the process whose turn it is.
    turn: PathBuf,
}

impl LockFiles {
    pub fn of_environment(common_dir: &Path, id: EnvironmentId) -> io::Result<Self> {
        Ok(Self::in_folder(&locks_dir(common_dir)?, &id.to_string()))
    }

    /// Returns the environments that have a lock file.
    pub fn locked_environments(common_dir: &Path) -> io::Result<BTreeSet<EnvironmentId>> {
        let entries = match std::fs::read_dir(common_dir.join("grove/locks")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            other => other?,
        };
        let mut found = BTreeSet::new();
        for entry in entries {
            let name = entry?.file_name();
            let id =
                name.to_str().and_then(|name| name.split('.').next()).and_then(|id| id.parse::<EnvironmentId>().ok());
            found.extend(id);
        }
        Ok(found)
    }

    pub fn in_folder(folder: &Path, name: &str) -> Self {
        let file = |ending: &str| folder.join(format!("{name}{ending}"));
        Self { shared: file(""), alone: file(".run"), turn: file(".turn") }
    }

    /// Deletes the files that no process holds, for an environment that is gone for good.
    pub fn delete_files(&self) -> io::Result<()> {
        [&self.shared, &self.alone, &self.turn].into_iter().try_for_each(|file| delete_unheld(file))
    }

    /// Waits for the turn: one agent at a time works there.
    pub async fn wait_for_turn(&self) -> io::Result<FileLock> {
        wait_for(&self.turn).await
    }

    /// Takes the locks of a run, for this process and for all that it starts; a process that moves the
    /// environment needs them exclusively. `None` if another process is moving it, or something else runs
    /// there.
    pub fn try_hold_run(&self) -> io::Result<Option<RunLocks>> {
        // Two shared locks: one that children inherit, and one that an agent cannot release.
        let mut locks = RunLocks {
            ours: open_lock_file(&self.shared)?,
            shared: open_lock_file(&self.shared)?,
            alone: open_lock_file(&self.alone)?,
        };
        let (share, have) = (FlockOperation::NonBlockingLockShared, FlockOperation::NonBlockingLockExclusive);
        let RunLocks { ours, shared, alone } = &mut locks;
        for (path, file, kind) in
            [(&self.shared, ours, share), (&self.shared, shared, share), (&self.alone, alone, have)]
        {
            if !try_lock(path, file, kind)? {
                return Ok(None);
            }
        }
        let_inherit(&locks.shared)?;
        let_inherit(&locks.alone)?;
        Ok(Some(locks))
    }

    /// Waits until no process of an earlier run is left; those that stay longer than `patience` are killed,
    /// since their supervisor is gone and no other process would end them.
    pub async fn wait_for_runs(&self, patience: Duration) -> io::Result<()> {
        let mut file = open_lock_file(&self.alone)?;
        let began = Instant::now();
        loop {
            if try_lock(&self.alone, &mut file, FlockOperation::NonBlockingLockExclusive)? {
                return Ok(flock(&file, FlockOperation::Unlock)?);
            }
            if began.elapsed() > patience {
                signal_all(lock_holders(&file, "WRITE")?, Signal::KILL);
            }
            if began.elapsed() > patience * 2 {
                return Err(io::Error::other("something of an earlier run does not end"));
            }
            // Looking at every process is expensive.
            let pause = if began.elapsed() > patience { 200 } else { 20 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
}

/// The locks of a run. They are held until this value is dropped and the last process of the run
/// ends.
#[derive(Debug)]
pub struct RunLocks {
    ours: File,
    shared: File,
    alone: File,
}

fn let_inherit(file: &File) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?)
}

async fn wait_for(path: &Path) -> io::Result<FileLock> {
    let mut file = open_lock_file(path)?;
    let mut pause = Duration::from_millis(1);
    while !try_lock(path, &mut file, FlockOperation::NonBlockingLockExclusive)? {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    Ok(FileLock(file))
}

/// The number of times that other processes may delete a lock's file just before it is locked.
const MAX_LOCK_REOPENS: usize = 1000;

/// Tries to lock `file`, which was opened at `path`; opens it again if it was deleted since. Tells whether it
/// is locked.
fn try_lock(path: &Path, file: &mut File, kind: FlockOperation) -> io::Result<bool> {
    for _ in 0..MAX_LOCK_REOPENS {
        let locked = match flock(&*file, kind) {
            Ok(()) => true,
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => false,
            Err(error) => return Err(error.into()),
        };
        if is_at(path, file)? {
            return Ok(locked);
        }
        *file = open_lock_file(path)?;
    }
    Err(io::Error::other(format!("{} is deleted again and again", path.display())))
}

/// Tells whether an open file is the one at `path`.
fn is_at(path: &Path, file: &File) -> io::Result<bool> {
    let ours = file.metadata()?;
    match path.metadata() {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens the file of a lock, if it exists.
fn open_existing(path: &Path) -> io::Result<Option<File>> {
    match OpenOptions::new().write(true).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes the file of a lock unless a process holds it.
fn delete_unheld(path: &Path) -> io::Result<()> {
    let Some(file) = open_existing(path)? else { return Ok(()) };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) if is_at(path, &file)? => std::fs::remove_file(path),
        Ok(()) | Err(rustix::io::Errno::WOULDBLOCK) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns our own directory inside the repository's: locks, staging, time stamps. Git ignores it.
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

fn open_lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}

/// Ends the remaining processes of a run whose supervisor (`is_supervisor`, by process id) is gone,
/// since no other process would end them. Tells whether there were any.
pub fn end_orphans(common_dir: &Path, id: EnvironmentId, is_supervisor: impl Fn(u32) -> bool) -> io::Result<bool> {
    let Some(file) = open_existing(&LockFiles::of_environment(common_dir, id)?.alone)? else { return Ok(false) };
    // No process holds it: the usual case, and no reason to look at every process.
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return Ok(false);
    }
    let left = lock_holders(&file, "WRITE")?;
    if left.is_empty() || left.iter().any(|process| is_supervisor(*process)) {
        return Ok(false);
    }
    signal_all(left, Signal::KILL);
    Ok(true)
}

/// Returns the other processes that hold a lock of this kind on a file.
fn lock_holders(file: &File, kind: &str) -> io::Result<Vec<u32>> {
    let ours = file.metadata()?;
    let same =
        |path: PathBuf| std::fs::metadata(path).is_ok_and(|meta| meta.dev() == ours.dev() && meta.ino() == ours.ino());
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc")?.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if id == std::process::id() || is_grove(id) {
            continue;
        }
        // If the first thread of a process has ended, only its other threads list its files.
        let threads = std::fs::read_dir(process.path().join("task")).into_iter().flatten().flatten();
        let holds = |thread: PathBuf| {
            let mut open = std::fs::read_dir(thread.join("fd")).into_iter().flatten().flatten();
            open.any(|fd| {
                // A process that only has the file open does not hold the lock.
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

/// Tells whether a process is another grove that only inspects, such as a server: it is never ended. `grove
/// supervise`, which runs for an agent, may be ended.
fn is_grove(process: u32) -> bool {
    let program = |path: String| std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let ours = program("/proc/self/exe".to_owned());
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let supervises = line.split(|byte| *byte == 0).nth(1) == Some(b"supervise");
    ours.is_some() && program(format!("/proc/{process}/exe")) == ours && !supervises
}

/// The lock of one environment. Commands that run there share it and their children inherit it, so
/// it is held for as long as any of them lives; a process that moves the environment holds it
/// exclusively.
#[derive(Debug)]
pub struct EnvironmentLock {
    locks: LockFiles,
    file: Mutex<File>,
}

/// The holder of an environment's lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvironmentHolder {
    /// This process, exclusively.
    Us,
    /// Commands that run there, by process id.
    Commands(Vec<u32>),
    /// Another process is moving the environment now.
    Mover,
}

impl EnvironmentLock {
    pub fn open(common_dir: &Path, id: EnvironmentId) -> io::Result<Self> {
        let locks = LockFiles::of_environment(common_dir, id)?;
        let file = Mutex::new(open_lock_file(&locks.shared)?);
        Ok(Self { locks, file })
    }

    /// Tries to take the lock exclusively.
    pub fn try_alone(&self) -> io::Result<EnvironmentHolder> {
        let (path, mut file) = (&self.locks.shared, self.file.lock().unwrap_or_else(PoisonError::into_inner));
        if try_lock(path, &mut file, FlockOperation::NonBlockingLockExclusive)? {
            return Ok(EnvironmentHolder::Us);
        }
        if !try_lock(path, &mut file, FlockOperation::NonBlockingLockShared)? {
            return Ok(EnvironmentHolder::Mover);
        }
        flock(&*file, FlockOperation::Unlock)?;
        Ok(EnvironmentHolder::Commands(lock_holders(&file, "READ")?))
    }

    /// Shares the lock with other commands; `false` if another process is moving the environment.
    pub fn try_share(&self) -> io::Result<bool> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        try_lock(&self.locks.shared, &mut file, FlockOperation::NonBlockingLockShared)
    }

    /// Lets the programs that this process becomes or starts inherit the lock.
    pub fn let_inherit(&self) -> io::Result<()> {
        let_inherit(&self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Deletes the environment's lock files, for an environment that is gone for good. Leaves those that
    /// another process holds.
    pub fn delete_files(self) -> io::Result<()> {
        if self.try_alone()? == EnvironmentHolder::Us {
            std::fs::remove_file(&self.locks.shared)?;
        }
        // The lock's file is no longer at its path, and no process holds a file that may be there now.
        self.locks.delete_files()
    }

    /// Ends the commands that run in the environment: first by a request, then by force. Tells
    /// whether this process has the lock exclusively now.
    pub async fn end_commands(&self) -> io::Result<bool> {
        for signal in [Signal::TERM, Signal::KILL] {
            // Finding the processes may itself take a while: the limit is a time, not a number of attempts.
            let began = Instant::now();
            while began.elapsed() < COMMAND_END_TIMEOUT {
                match self.try_alone()? {
                    EnvironmentHolder::Us => return Ok(true),
                    EnvironmentHolder::Mover => {}
                    EnvironmentHolder::Commands(processes) => signal_all(processes, signal),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(false)
    }
}
