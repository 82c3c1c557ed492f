//! Entries of worktrees that are broken, put aside so that the rest of the repository works.
//!
//! A zero-length `commondir`, as power loss leaves it, makes list, fetch and gc fail for the whole
//! repository. Such an entry is renamed to `.git/grove/quarantine/`, whole: nothing is deleted, and
//! what it holds (its HEAD, its index) can be looked at or put back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::lock::grove_dir;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenEntry {
    pub entry: PathBuf,
    /// The worktree that it belongs to, where it still says so.
    pub worktree: Option<PathBuf>,
    pub why: String,
}

/// Looks at every entry. One that git is just making is not broken.
pub fn broken_entries(common_dir: &Path) -> io::Result<Vec<BrokenEntry>> {
    let entries = match fs::read_dir(common_dir.join("worktrees")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut broken = Vec::new();
    for entry in entries {
        let entry = entry?.path();
        if fs::read_to_string(entry.join("locked")).is_ok_and(|reason| reason.trim_end() == "initializing") {
            continue;
        }
        let worktree = line(&entry.join("gitdir")).and_then(|dot_git| entry.join(dot_git).parent().map(Path::to_owned));
        if let Some(why) = flaw(common_dir, &entry, worktree.as_deref()) {
            broken.push(BrokenEntry { entry, worktree, why });
        }
    }
    Ok(broken)
}

fn flaw(common_dir: &Path, entry: &Path, worktree: Option<&Path>) -> Option<String> {
    for name in ["HEAD", "gitdir", "commondir"] {
        match fs::read(entry.join(name)) {
            Ok(bytes) if bytes.trim_ascii().is_empty() => return Some(format!("its `{name}` is empty")),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(format!("it has no `{name}`")),
            // Could not find out is not broken.
            Err(_) => return None,
        }
    }
    let points_to = line(&entry.join("commondir")).map(|dir| entry.join(dir).canonicalize());
    match (points_to, common_dir.canonicalize()) {
        (Some(Ok(there)), Ok(ours)) if there == ours => {}
        (Some(Err(error)), _) if error.kind() != io::ErrorKind::NotFound => return None,
        _ => return Some("its `commondir` leads elsewhere".to_owned()),
    }
    // A worktree that is away altogether is only missing.
    let worktree = worktree.filter(|dir| dir.is_dir())?;
    match worktree.join(".git").symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(format!("{} has no `.git`", worktree.display())),
        _ => None,
    }
}

fn line(file: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(file).ok()?;
    Some(PathBuf::from(text.trim_end_matches('\n'))).filter(|path| !path.as_os_str().is_empty())
}

/// Puts an entry aside; gives where it is now.
pub fn quarantine(common_dir: &Path, broken: &BrokenEntry) -> io::Result<PathBuf> {
    let dir = grove_dir(common_dir)?.join("quarantine");
    fs::create_dir_all(&dir)?;
    let name = broken.entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let free = (0..).map(|n| dir.join(if n == 0 { name.clone() } else { format!("{name}.{n}") }));
    let target = free.into_iter().find(|path| path.symlink_metadata().is_err()).unwrap_or(dir);
    fs::rename(&broken.entry, &target)?;
    Ok(target)
}
