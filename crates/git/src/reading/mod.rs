//! A worktree to look at: detached, on no branch, and gone afterwards.
//!
//! It is built aside and appears by rename like every worktree of ours ([`crate::worktree`]), its files
//! without the right to write. It goes the same way back: out of sight by rename, then it is deleted.
//! `git worktree remove` would not do: it destroys ignored files, commits that no ref holds and what lies
//! in a submodule's folder, and while it takes its entry apart, other git commands of the repository fail.
//! So [`judge`] asks for everything that may have been written, and what holds anything, or could not be
//! looked at, stays.
//!
//! The lock of git's entry says whose it is, in a [`Mark`]. While the files are under the name of the
//! nonce, nobody has seen them or nobody needs them any more, so whoever finds them after a crash may
//! delete them.

mod fence;
mod judge;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};
use std::{fmt, fs, io};

use grove_model::{CommitSha, Moment, Nonce, Owner};

use crate::durable::{SMALL, read_plain};
use crate::removal::RegenerableNames;
use crate::worktree::AddError;
use crate::worktree::stage::{Staging, add_plainly, needs_plain_git, staged_files, unlock};
use crate::{GitError, Repository, links};

/// Whose a reading is, and what it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub nonce: Nonce,
    pub at: CommitSha,
    /// Until when the owner is believed where it cannot be seen.
    pub until: Moment,
    pub owner: Owner,
}

/// What the reason of its lock begins with.
const WORDS: &str = "grove reading ";

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{WORDS}{} {} {} {}", self.nonce, self.at, self.until, self.owner)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not the mark of a reading")]
pub struct NotAMark(String);

impl FromStr for Mark {
    type Err = NotAMark;
    fn from_str(text: &str) -> Result<Self, NotAMark> {
        let read = || {
            let mut parts = text.strip_prefix(WORDS)?.splitn(4, ' ');
            let (nonce, at) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let (until, owner) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Self { nonce, at, until, owner })
        };
        read().ok_or_else(|| NotAMark(text.to_owned()))
    }
}

/// One that is there.
#[derive(Clone, Debug)]
pub struct Reading {
    pub path: PathBuf,
    pub mark: Mark,
    /// Git's entry for it.
    entry: PathBuf,
    /// Out of sight: not made yet, or on its way out.
    aside: bool,
}

/// What became of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Gone,
    /// It holds this, so it stays: a worktree like any other from now on.
    Kept(String),
}

#[derive(Debug, thiserror::Error)]
pub enum ReadingError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{} cannot be taken away: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Makes one at `path`, whose name is the mark's nonce. When it fails, nothing is left.
pub async fn begin(repo: &Repository, path: &Path, mark: Mark) -> Result<Reading, AddError> {
    match make(repo, path, &mark).await {
        Ok(entry) => Ok(Reading { path: path.to_owned(), mark, entry, aside: false }),
        Err(error) => {
            // Nobody has been told of it.
            for left in of_nonce(repo, mark.nonce) {
                if let Err(error) = put_away(repo, left).await {
                    tracing::warn!(path = %path.display(), "undoing a failed creation: {error}");
                }
            }
            Err(error)
        }
    }
}

async fn make(repo: &Repository, path: &Path, mark: &Mark) -> Result<PathBuf, AddError> {
    let entry = if needs_plain_git(repo) {
        add_plainly(repo, path, &["--detach"], mark.at.as_str(), &mark.to_string()).await?;
        let entry =
            links::entry_of(path, &repo.common_dir).and_then(|entry| entry.ok_or(io::ErrorKind::NotFound.into()));
        entry.map_err(AddError::io("git's entry cannot be read"))?
    } else {
        let staging = Staging { path, entry: aside(repo, mark.nonce), files: staged_files(path, mark.nonce) };
        staging.make_entry(repo)?;
        staging.write_entry(mark.at.as_str(), &mark.to_string())?;
        staging.make_files(&mut Vec::new())?;
        staging.check_out(repo).await?;
        let entry = staging.publish_entry(repo)?;
        staging.publish_files()?;
        entry
    };
    let root = path.to_owned();
    let closed = tokio::task::spawn_blocking(move || fence::close(&root)).await.map_err(io::Error::other).flatten();
    closed.map_err(AddError::io(format!("{} cannot be closed for writing", path.display())))?;
    Ok(entry)
}

/// Takes one away that nobody uses any more, if nothing was written there. What could not be found out
/// is an error, and then it stays as it is.
pub async fn end(repo: &Repository, reading: Reading, regenerable: &RegenerableNames) -> Result<Ended, ReadingError> {
    if !reading.aside {
        let failed = |source| ReadingError::Io { path: reading.path.clone(), source };
        open(&reading.path).await.map_err(failed)?;
        if let Some(what) = judge::written(repo, &reading, regenerable).await? {
            unlock(&reading.entry).map_err(failed)?;
            return Ok(Ended::Kept(what));
        }
    }
    put_away(repo, reading).await?;
    Ok(Ended::Gone)
}

async fn open(path: &Path) -> io::Result<()> {
    let root = path.to_owned();
    match tokio::task::spawn_blocking(move || fence::open(&root)).await.map_err(io::Error::other).flatten() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => Ok(()),
        done => done,
    }
}

/// Out of sight, then deleted. Each step is done where it is not done yet.
async fn put_away(repo: &Repository, reading: Reading) -> Result<(), ReadingError> {
    let Reading { path, mark, entry, aside: is_aside } = reading;
    let failed = |source| ReadingError::Io { path: path.clone(), source };
    let (files, aside) = (staged_files(&path, mark.nonce), aside(repo, mark.nonce));
    if !is_aside {
        open(&path).await.map_err(failed)?;
        unless_gone(fs::rename(&path, &files)).map_err(failed)?;
        unless_gone(fs::create_dir_all(repo.common_dir.join("grove"))).map_err(failed)?;
        unless_gone(fs::rename(&entry, &aside)).map_err(failed)?;
        // As git does when the last worktree goes.
        let _ = fs::remove_dir(repo.common_dir.join("worktrees"));
    }
    let deleting =
        move || unless_gone(fs::remove_dir_all(&files)).and_then(|()| unless_gone(fs::remove_dir_all(&aside)));
    tokio::task::spawn_blocking(deleting).await.map_err(io::Error::other).flatten().map_err(failed)?;
    // Folders above that only this one needed; one with another tenant stays.
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

/// What the name of an entry begins with that is out of sight.
const ASIDE: &str = "reading-";

/// As deep as where git looks for it, since git follows `commondir` already while it fills it.
fn aside(repo: &Repository, nonce: Nonce) -> PathBuf {
    repo.common_dir.join("grove").join(format!("{ASIDE}{nonce}"))
}

/// Whether the reason of a lock is a reading's.
pub fn is_reading(lock: &str) -> bool {
    lock.trim_end().parse::<Mark>().is_ok()
}

/// All readings of a repository, whoever has them. What carries no mark is none.
pub fn all(repo: &Repository) -> io::Result<Vec<Reading>> {
    let mut found = Vec::new();
    for entry in links::entries(&repo.common_dir)? {
        found.extend(read(entry, false)?);
    }
    let ours = match fs::read_dir(repo.common_dir.join("grove")) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    for entry in ours.into_iter().filter(|entry| entry.file_name().to_string_lossy().starts_with(ASIDE)) {
        match read(entry.path(), true)? {
            Some(reading) => found.push(reading),
            None => forget_empty(&entry.path()),
        }
    }
    Ok(found)
}

fn of_nonce(repo: &Repository, nonce: Nonce) -> Vec<Reading> {
    all(repo).unwrap_or_default().into_iter().filter(|reading| reading.mark.nonce == nonce).collect()
}

fn read(entry: PathBuf, aside: bool) -> io::Result<Option<Reading>> {
    let lock = match read_plain(&entry.join("locked"), SMALL) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mark = std::str::from_utf8(&lock).ok().and_then(|lock| lock.trim_end().parse().ok());
    Ok(mark.zip(links::worktree_of(&entry)?).map(|(mark, path)| Reading { path, mark, entry, aside }))
}

/// How long somebody may take to write the first files of an entry.
const BEGINNING: Duration = Duration::from_secs(10 * 60);

/// Somebody was killed before the first file was written, or after the last but the folder was deleted.
fn forget_empty(entry: &Path) {
    let age = entry.metadata().and_then(|meta| meta.modified()).map(|made| SystemTime::now().duration_since(made));
    if matches!(age, Ok(Ok(age)) if age > BEGINNING) {
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
        let mark = Mark { nonce, at, until, owner };
        let text = mark.to_string();
        assert_eq!(text.parse::<Mark>().unwrap(), mark);
        assert!(is_reading(&format!("{text}\n")));
        for other in ["", "on a stick", &Nonce::new().to_string(), &text[..60], &text.replace("12345", "x")] {
            assert!(!is_reading(other), "{other}");
        }
    }
}
