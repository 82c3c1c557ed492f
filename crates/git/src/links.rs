//! Reads the two links between a worktree and git's entry for it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use crate::durable::{MAX_SMALL_FILE_BYTES, read_plain};

/// Returns the directory that a worktree's own `.git` file names, resolved. `None` if there is no
/// such file, or it is not a worktree's. Never searches parent folders: a plain folder inside a
/// repository is not a worktree of it.
pub fn git_dir_of(worktree: &Path) -> io::Result<Option<PathBuf>> {
    let file = worktree.join(".git");
    match file.symlink_metadata() {
        Ok(meta) if meta.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let bytes = read_plain(&file, MAX_SMALL_FILE_BYTES)?;
    let Some(text) = bytes.strip_prefix(b"gitdir: ") else { return Ok(None) };
    let named = worktree.join(PathBuf::from(OsString::from_vec(text.trim_ascii_end().to_vec())));
    Ok(Some(resolve_path(&named)?))
}

/// Returns the entry of this repository that a worktree belongs to, if that entry exists.
pub fn entry_of(worktree: &Path, common_dir: &Path) -> io::Result<Option<PathBuf>> {
    let Some(git_dir) = git_dir_of(worktree)? else { return Ok(None) };
    let entries = resolve_path(&common_dir.join("worktrees"))?;
    Ok((git_dir.parent() == Some(&entries) && git_dir.is_dir()).then_some(git_dir))
}

/// Returns the entry that a worktree's `.git` names, if it does so by the plain path that git writes. Nothing
/// is resolved, so this is quick; `None` proves nothing.
pub fn plain_entry_of(worktree: &Path, common_dir: &Path) -> Option<PathBuf> {
    let text = read_plain(&worktree.join(".git"), MAX_SMALL_FILE_BYTES).ok()?;
    let named = Path::new(OsStr::from_bytes(text.strip_prefix(b"gitdir: ")?.trim_ascii_end()));
    let name = named.strip_prefix(common_dir.join("worktrees")).ok()?;
    let mut parts = name.components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)).then(|| named.to_owned())
}

/// Returns the worktree that an entry says it belongs to.
pub fn worktree_of(entry: &Path) -> io::Result<Option<PathBuf>> {
    let text = match read_plain(&entry.join("gitdir"), MAX_SMALL_FILE_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let named = PathBuf::from(OsString::from_vec(text.trim_ascii_end().to_vec()));
    Ok(entry.join(named).parent().filter(|_| !text.trim_ascii().is_empty()).map(Path::to_owned))
}

/// Returns all entries of a repository.
pub fn list_entries(common_dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(common_dir.join("worktrees")) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Resolves links and `..` as far as the path exists; the last part may be missing.
fn resolve_path(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok(parent.canonicalize().unwrap_or_else(|_| parent.to_owned()).join(name)),
            _ => Ok(path.to_owned()),
        },
        other => other,
    }
}
