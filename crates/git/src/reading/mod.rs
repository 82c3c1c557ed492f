//! Snapshots: worktrees that are only read, detached, on no branch, and removed afterwards.
//!
//! A snapshot is built aside and appears by rename like every worktree of ours ([`crate::worktree`]), its
//! files without write permission. It is removed in the reverse order: renamed aside, then deleted. `git
//! worktree remove` would not do: it destroys ignored files, commits that no ref holds and files in a
//! submodule's folder, and while it takes its entry apart, other git commands of the repository fail. So
//! [`judge`] looks for everything that may have been written; a snapshot that holds anything, or cannot be
//! inspected, stays.
//!
//! The lock of git's entry names the owner, in a [`SnapshotMark`]. While the files are under the name of the
//! nonce, no process has seen them yet or no process needs them any more, so a process that finds them after
//! a crash may delete them.

mod fence;
mod judge;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};
use std::{fmt, fs, io};

use grove_model::{CommitSha, Moment, Nonce, ProcessOwner};

use crate::durable::{MAX_SMALL_FILE_BYTES, read_plain};
use crate::removal::RegenerableNames;
use crate::worktree::AddWorktreeError;
use crate::worktree::stage::{StagedWorktree, add_plainly, needs_plain_git, remove_lock, staged_files};
use crate::{GitError, Repository, links};

/// The owner of a snapshot, and its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMark {
    pub nonce: Nonce,
    pub at: CommitSha,
    /// The time until which the owner counts as alive where it cannot be seen.
    pub until: Moment,
    pub owner: ProcessOwner,
}

/// The prefix of its lock's reason.
const SNAPSHOT_LOCK_PREFIX: &str = "grove reading ";

impl fmt::Display for SnapshotMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SNAPSHOT_LOCK_PREFIX}{} {} {} {}", self.nonce, self.at, self.until, self.owner)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not the mark of a reading")]
pub struct SnapshotMarkError(String);

impl FromStr for SnapshotMark {
    type Err = SnapshotMarkError;
    fn from_str(text: &str) -> Result<Self, SnapshotMarkError> {
        let read = || {
            let mut parts = text.strip_prefix(SNAPSHOT_LOCK_PREFIX)?.splitn(4, ' ');
            let (nonce, at) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let (until, owner) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Self { nonce, at, until, owner })
        };
        read().ok_or_else(|| SnapshotMarkError(text.to_owned()))
    }
}

/// An existing snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotWorktree {
    pub path: PathBuf,
    pub mark: SnapshotMark,
    /// Git's entry for it.
    entry: PathBuf,
    /// Set while its entry is aside: not published yet, or being removed.
    aside: bool,
}

/// The outcome of ending a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotOutcome {
    Gone,
    /// It holds this change, so it stays: an ordinary worktree from now on.
    Kept(String),
}

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{} cannot be taken away: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Creates a snapshot at `path`, whose last part is the mark's nonce. A failure leaves nothing
/// behind.
pub async fn create_snapshot(
    repo: &Repository,
    path: &Path,
    mark: SnapshotMark,
) -> Result<SnapshotWorktree, AddWorktreeError> {
    match build_snapshot(repo, path, &mark).await {
        Ok(entry) => Ok(SnapshotWorktree { path: path.to_owned(), mark, entry, aside: false }),
        Err(error) => {
            // No caller knows of it yet.
            for left in of_nonce(repo, mark.nonce) {
                if let Err(error) = put_away(repo, left).await {
                    tracing::warn!(path = %path.display(), "undoing a failed creation: {error}");
                }
            }
            Err(error)
        }
    }
}

async fn build_snapshot(repo: &Repository, path: &Path, mark: &SnapshotMark) -> Result<PathBuf, AddWorktreeError> {
    let entry = if needs_plain_git(repo) {
        add_plainly(repo, path, &["--detach"], mark.at.as_str(), &mark.to_string()).await?;
        let entry =
            links::entry_of(path, &repo.common_dir).and_then(|entry| entry.ok_or(io::ErrorKind::NotFound.into()));
        entry.map_err(AddWorktreeError::io_error("git's entry cannot be read"))?
    } else {
        let staging =
            StagedWorktree { path, entry: aside_path(repo, mark.nonce), files: staged_files(path, mark.nonce) };
        staging.make_entry(repo)?;
        staging.write_entry(mark.at.as_str(), &mark.to_string())?;
        staging.make_files(&mut Vec::new())?;
        staging.check_out(repo).await?;
        let entry = staging.publish_entry(repo)?;
        staging.publish_files()?;
        entry
    };
    let root = path.to_owned();
    let closed = tokio::task::spawn_blocking(move || fence::remove_write_access(&root))
        .await
        .map_err(io::Error::other)
        .flatten();
    closed.map_err(AddWorktreeError::io_error(format!("{} cannot be closed for writing", path.display())))?;
    Ok(entry)
}

/// Removes a snapshot that no process uses any more, if nothing was written there. If that cannot be
/// determined, it returns an error and the snapshot stays as it is.
pub async fn end_snapshot(
    repo: &Repository,
    reading: SnapshotWorktree,
    regenerable: &RegenerableNames,
) -> Result<SnapshotOutcome, SnapshotError> {
    if !reading.aside {
        let failed = |source| SnapshotError::Io { path: reading.path.clone(), source };
        make_writable(&reading.path).await.map_err(failed)?;
        if let Some(what) = judge::find_written(repo, &reading, regenerable).await? {
            remove_lock(&reading.entry).map_err(failed)?;
            return Ok(SnapshotOutcome::Kept(what));
        }
    }
    put_away(repo, reading).await?;
    Ok(SnapshotOutcome::Gone)
}

async fn make_writable(path: &Path) -> io::Result<()> {
    let root = path.to_owned();
    match tokio::task::spawn_blocking(move || fence::restore_write_access(&root))
        .await
        .map_err(io::Error::other)
        .flatten()
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => Ok(()),
        done => done,
    }
}

/// Moves a snapshot aside, then deletes it. Each step is skipped if it is done already.
async fn put_away(repo: &Repository, reading: SnapshotWorktree) -> Result<(), SnapshotError> {
    let SnapshotWorktree { path, mark, entry, aside: is_aside } = reading;
    let failed = |source| SnapshotError::Io { path: path.clone(), source };
    let (files, aside) = (staged_files(&path, mark.nonce), aside_path(repo, mark.nonce));
    if !is_aside {
        make_writable(&path).await.map_err(failed)?;
        unless_gone(fs::rename(&path, &files)).map_err(failed)?;
        unless_gone(fs::create_dir_all(repo.common_dir.join("grove"))).map_err(failed)?;
        unless_gone(fs::rename(&entry, &aside)).map_err(failed)?;
        // Git does the same after it removes the last worktree.
        let _ = fs::remove_dir(repo.common_dir.join("worktrees"));
    }
    let deleting =
        move || unless_gone(fs::remove_dir_all(&files)).and_then(|()| unless_gone(fs::remove_dir_all(&aside)));
    tokio::task::spawn_blocking(deleting).await.map_err(io::Error::other).flatten().map_err(failed)?;
    // Folders above that only this snapshot needed; a folder with other contents stays.
    for dir in path.ancestors().skip(1).take(2) {
        if fs::remove_dir(dir).is_err() {
            break;
        }
    }
    Ok(())
}

fn unless_gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// The prefix of an entry's name while it is aside.
const ASIDE_ENTRY_PREFIX: &str = "reading-";

/// Returns the path of an entry while it is aside. It is as deep as the place where git looks for
/// it, since git already follows `commondir` while it fills the entry.
fn aside_path(repo: &Repository, nonce: Nonce) -> PathBuf {
    repo.common_dir.join("grove").join(format!("{ASIDE_ENTRY_PREFIX}{nonce}"))
}

/// Tells whether a lock's reason is that of a snapshot.
pub fn is_reading(lock: &str) -> bool {
    lock.trim_end().parse::<SnapshotMark>().is_ok()
}

/// Returns all snapshots of a repository, of every owner. An entry without a mark is not a
/// snapshot.
pub fn list_snapshots(repo: &Repository) -> io::Result<Vec<SnapshotWorktree>> {
    let mut found = Vec::new();
    for entry in links::list_entries(&repo.common_dir)? {
        found.extend(read_snapshot(entry, false)?);
    }
    let ours = match fs::read_dir(repo.common_dir.join("grove")) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    for entry in ours.into_iter().filter(|entry| entry.file_name().to_string_lossy().starts_with(ASIDE_ENTRY_PREFIX)) {
        match read_snapshot(entry.path(), true)? {
            Some(reading) => found.push(reading),
            None => forget_empty(&entry.path()),
        }
    }
    Ok(found)
}

fn of_nonce(repo: &Repository, nonce: Nonce) -> Vec<SnapshotWorktree> {
    list_snapshots(repo).unwrap_or_default().into_iter().filter(|reading| reading.mark.nonce == nonce).collect()
}

fn read_snapshot(entry: PathBuf, aside: bool) -> io::Result<Option<SnapshotWorktree>> {
    let lock = match read_plain(&entry.join("locked"), MAX_SMALL_FILE_BYTES) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mark = std::str::from_utf8(&lock).ok().and_then(|lock| lock.trim_end().parse().ok());
    Ok(mark.zip(links::worktree_of(&entry)?).map(|(mark, path)| SnapshotWorktree { path, mark, entry, aside }))
}

/// The time that a process may take to write the first files of an entry.
const ENTRY_START_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Removes an empty entry. Its process was killed before it wrote the first file, or after it deleted
/// everything but the folder.
fn forget_empty(entry: &Path) {
    let age = entry.metadata().and_then(|meta| meta.modified()).map(|made| SystemTime::now().duration_since(made));
    if matches!(age, Ok(Ok(age)) if age > ENTRY_START_TIMEOUT) {
        let _ = fs::remove_dir(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_the_lock_and_nothing_else_is_one() {
        let owner = "host 1b4e28ba 4026531836 17 12345".parse().unwrap();
        let (nonce, at, until) = (Nonce::new(), "a".repeat(40).parse().unwrap(), Moment::now());
        let mark = SnapshotMark { nonce, at, until, owner };
        let text = mark.to_string();
        assert_eq!(text.parse::<SnapshotMark>().unwrap(), mark);
        assert!(is_reading(&format!("{text}\n")));
        for other in ["", "on a stick", &Nonce::new().to_string(), &text[..60], &text.replace("12345", "x")] {
            assert!(!is_reading(other), "{other}");
        }
    }
}
