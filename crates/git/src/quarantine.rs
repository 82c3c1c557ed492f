//! Moves broken entries of worktrees aside, so that the rest of the repository works.
//!
//! A zero-length `commondir`, as power loss leaves it, makes list, fetch and gc fail for the whole
//! repository. Such an entry is renamed to `.git/grove/quarantine/`, whole: nothing is deleted, and
//! its contents (its HEAD, its index) can be inspected or put back. Since gc no longer sees it
//! there, its commits and staged files are pinned under `refs/grove/quarantine/`.
//!
//! A worktree that only lost its `.git` breaks no other worktree; it stays where `git worktree
//! repair` finds it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use grove_model::short_hash;

use crate::lock::grove_dir;
use crate::removal::pins;
use crate::{GitError, GitLocation, Repository, links};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenEntry {
    pub entry: PathBuf,
    /// The worktree that it belongs to, if it still names one.
    pub worktree: Option<PathBuf>,
    pub why: String,
}

/// The time that another process may take to create an entry.
const ENTRY_CREATION_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Finds the entries that break git for the whole repository. An entry that we or a person are just
/// creating is not broken: git locks it first, and its files are missing, not empty.
pub fn broken_entries(common_dir: &Path) -> io::Result<Vec<BrokenEntry>> {
    let mut broken = Vec::new();
    for entry in links::list_entries(common_dir)? {
        let Some(why) = find_defect(common_dir, &entry) else { continue };
        let young = fs::metadata(&entry)
            .and_then(|meta| meta.modified())
            .is_ok_and(|made| SystemTime::now().duration_since(made).map_or(true, |age| age < ENTRY_CREATION_TIMEOUT));
        let locked = entry.join("locked").symlink_metadata().is_ok();
        if young && (locked || why == EntryDefect::Missing) {
            continue;
        }
        let worktree = links::worktree_of(&entry).ok().flatten();
        let why = match why {
            EntryDefect::Missing => "files of it are missing",
            EntryDefect::Empty => "files of it are empty, as power loss leaves them",
            EntryDefect::Elsewhere => "its `commondir` leads elsewhere",
        };
        broken.push(BrokenEntry { entry, worktree, why: why.to_owned() });
    }
    Ok(broken)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryDefect {
    Missing,
    Empty,
    Elsewhere,
}

fn find_defect(common_dir: &Path, entry: &Path) -> Option<EntryDefect> {
    for name in ["HEAD", "gitdir", "commondir"] {
        match fs::read(entry.join(name)) {
            Ok(bytes) if bytes.trim_ascii().is_empty() => return Some(EntryDefect::Empty),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(EntryDefect::Missing),
            // An entry that cannot be read is not proven broken.
            Err(_) => return None,
        }
    }
    let text = fs::read_to_string(entry.join("commondir")).ok()?;
    match (entry.join(text.trim_end_matches('\n')).canonicalize(), common_dir.canonicalize()) {
        (Ok(there), Ok(ours)) if there == ours => None,
        (Err(error), _) if error.kind() != io::ErrorKind::NotFound => None,
        _ => Some(EntryDefect::Elsewhere),
    }
}

/// Moves an entry aside and returns its new path.
pub fn quarantine_entry(common_dir: &Path, broken: &BrokenEntry) -> io::Result<PathBuf> {
    let dir = grove_dir(common_dir)?.join("quarantine");
    fs::create_dir_all(&dir)?;
    let name = broken.entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let free = (0..).map(|n| dir.join(if n == 0 { name.clone() } else { format!("{name}.{n}") }));
    let target = free.into_iter().find(|path| path.symlink_metadata().is_err()).unwrap_or(dir);
    fs::rename(&broken.entry, &target)?;
    Ok(target)
}

/// Pins what only a quarantined entry holds: its HEAD, the commits of its reflog, the objects of
/// its index.
pub async fn pin_quarantined(repo: &Repository, aside: &Path) -> Result<(), GitError> {
    let name = aside.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let base = format!("quarantine/{}", short_hash(name.as_bytes(), 16));
    let named = pins::named_in(aside).map_err(|error| GitError::unreadable_output("entry", error.to_string()))?;
    let index = aside.join("index");
    let objects = if index.is_file() {
        match pins::in_index(repo, GitLocation::Repository(&repo.common_dir), Some(&index)).await {
            Ok(objects) => objects,
            // An index that cannot be read holds nothing that could be pinned; it stays in place.
            Err(GitError::Failed { .. }) => Vec::new(),
            Err(error) => return Err(error),
        }
    } else {
        Vec::new()
    };
    pins::pin_objects(repo, &base, None, &named, &objects).await
}

/// Moves the entry of a worktree whose folder is gone aside, so that its branch is free again. An
/// entry that a person or another tool locked, or that belongs to another path, stays.
pub fn quarantine_gone_worktree(common_dir: &Path, worktree: &Path) -> io::Result<Option<PathBuf>> {
    for entry in links::list_entries(common_dir)? {
        let of_it = links::worktree_of(&entry)?.as_deref() == Some(worktree);
        let locked = entry.join("locked").symlink_metadata().is_ok();
        if of_it && !locked && worktree.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            let broken = BrokenEntry { entry, worktree: Some(worktree.to_owned()), why: String::new() };
            return quarantine_entry(common_dir, &broken).map(Some);
        }
    }
    Ok(None)
}
