//! Checks that the path is free for a new worktree.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::{Repository, links};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("{} is a file", .0.display())]
    File(PathBuf),
    #[error("{} is a symbolic link", .0.display())]
    Link(PathBuf),
    #[error("{} holds a full clone of a repository", .0.display())]
    Clone(PathBuf),
    #[error("{} is a submodule of another repository", .0.display())]
    Submodule(PathBuf),
    #[error("{} is a worktree of another repository", .0.display())]
    ForeignWorktree(PathBuf),
    #[error("{} is already a worktree of this repository", .0.display())]
    Worktree(PathBuf),
    #[error("{} holds files", .0.display())]
    Files(PathBuf),
    #[error("{} cannot be looked at: {why}", path.display())]
    Unknown { path: PathBuf, why: String },
}

/// A path that is free once [`FreeTarget::clear_path`] was called.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FreeTarget {
    Nothing,
    EmptyDirectory(PathBuf),
    /// A worktree of ours whose entry git no longer has: moved aside, never deleted.
    Orphaned(PathBuf),
}

impl FreeTarget {
    /// Makes the path free; returns the path that an orphan was moved to.
    pub(super) fn clear_path(self) -> Result<Option<PathBuf>, super::AddWorktreeError> {
        match self {
            FreeTarget::Nothing => Ok(None),
            FreeTarget::EmptyDirectory(path) => {
                fs::remove_dir(&path)
                    .map_err(super::AddWorktreeError::io_error(format!("{} cannot be replaced", path.display())))?;
                Ok(None)
            }
            FreeTarget::Orphaned(path) => {
                let failed = || super::AddWorktreeError::io_error(format!("{} cannot be moved aside", path.display()));
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let aside = path.with_file_name(".orphaned");
                fs::create_dir_all(&aside).map_err(failed())?;
                let free =
                    (1..).map(|n| aside.join(format!("{name}.{n}"))).find(|aside| aside.symlink_metadata().is_err());
                let aside = free.unwrap_or(aside);
                fs::rename(&path, &aside).map_err(failed())?;
                Ok(Some(aside))
            }
        }
    }
}

pub(super) fn check_target(repo: &Repository, path: &Path) -> Result<FreeTarget, TargetError> {
    let here = || path.to_owned();
    let unknown = |error: &io::Error| TargetError::Unknown { path: path.to_owned(), why: error.to_string() };
    let meta = match path.symlink_metadata() {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FreeTarget::Nothing),
        // A file in place of a parent folder: creating the folders will report it.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(FreeTarget::Nothing),
        Err(error) => return Err(unknown(&error)),
    };
    if meta.is_symlink() {
        return Err(TargetError::Link(here()));
    }
    if !meta.is_dir() {
        return Err(TargetError::File(here()));
    }
    let dot_git = path.join(".git");
    match dot_git.symlink_metadata() {
        Ok(meta) if meta.is_dir() => Err(TargetError::Clone(here())),
        Ok(_) => {
            let Some(git_dir) = links::git_dir_of(path).map_err(|error| unknown(&error))? else {
                return Err(TargetError::Files(here()));
            };
            let ours = git_dir.parent() == Some(&repo.common_dir.join("worktrees"));
            match (ours, git_dir.exists()) {
                (true, true) => Err(TargetError::Worktree(here())),
                (true, false) => Ok(FreeTarget::Orphaned(here())),
                (false, _) if git_dir.components().any(|part| part.as_os_str() == "modules") => {
                    Err(TargetError::Submodule(here()))
                }
                (false, _) => Err(TargetError::ForeignWorktree(here())),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut entries = fs::read_dir(path).map_err(|error| unknown(&error))?;
            match entries.next() {
                None => Ok(FreeTarget::EmptyDirectory(here())),
                // `HEAD`, `objects`, `refs`: a bare repository.
                Some(_) if path.join("HEAD").is_file() && path.join("objects").is_dir() => {
                    Err(TargetError::Clone(here()))
                }
                Some(_) => Err(TargetError::Files(here())),
            }
        }
        Err(error) => Err(unknown(&error)),
    }
}
