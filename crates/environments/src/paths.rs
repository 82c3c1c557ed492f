//! The paths of worktrees.

use std::path::{Path, PathBuf};

use grove_git::links;
use grove_model::{BranchName, Codebase, Environment, FolderName, human_size};

use crate::error::{CreateError, EnvironmentError};
use crate::settings::{Settings, WorktreeLayout};

/// Returns the directory that holds a codebase's worktrees.
pub fn worktrees_of(codebase: &Codebase, settings: &Settings) -> PathBuf {
    match settings.worktree_layout() {
        WorktreeLayout::Owner => settings.worktree_base().join(&codebase.folders.owner),
        WorktreeLayout::Project => settings.worktree_base().join(&codebase.folders.project),
        WorktreeLayout::Sibling => {
            let name =
                codebase.default_cwd.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            codebase.default_cwd.with_file_name(format!("{name}-worktrees"))
        }
    }
}

/// Returns the path for a branch among the existing environments: no two branches share a folder.
pub fn path_for(branch: &BranchName, codebase: &Codebase, settings: &Settings, others: &[Environment]) -> PathBuf {
    let parent = worktrees_of(codebase, settings);
    let taken = |folder: &FolderName| {
        let path = parent.join(folder.as_str());
        others.iter().any(|other| other.path == path && other.branch != *branch)
            || stranger_on_another_branch(&path, branch, codebase)
    };
    parent.join(FolderName::distinct_for_branch(branch, taken).as_str())
}

/// Tells whether the path holds a worktree of this codebase that another tool or a person made, on another
/// branch.
fn stranger_on_another_branch(path: &Path, branch: &BranchName, codebase: &Codebase) -> bool {
    let Ok(Some(entry)) = links::entry_of(path, &codebase.git_common_dir) else { return false };
    let head = std::fs::read_to_string(entry.join("HEAD")).unwrap_or_default();
    head.trim_end() != format!("ref: {}", branch.full_ref())
}

/// Tells whether `path` is at or below `root`, with links resolved as far as the path exists.
pub fn is_beneath(path: &Path, root: &Path) -> bool {
    let Ok(root) = root.canonicalize() else { return false };
    let mut missing = Vec::new();
    let mut there = path;
    loop {
        if let Ok(real) = there.canonicalize() {
            let whole = missing.iter().rev().fold(real, |path, part| path.join(part));
            return whole.starts_with(&root);
        }
        match (there.parent(), there.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name);
                there = parent;
            }
            _ => return false,
        }
    }
}

/// Refuses, before git starts, a path that the settings or the disk do not allow.
pub(super) fn check_worktree_path(
    path: &Path,
    codebase: &Codebase,
    settings: &Settings,
) -> Result<(), EnvironmentError> {
    // Git cleans up its own directory.
    if is_beneath(path, &codebase.git_common_dir) {
        return Err(EnvironmentError::Create(CreateError::InsideGit { path: path.to_owned() }));
    }
    if let Some(root) = settings.allowed_root()
        && !is_beneath(path, &root)
    {
        return Err(EnvironmentError::Create(CreateError::OutsideRoot { path: path.to_owned(), root }));
    }
    has_room(path, settings)
}

/// Refuses a creation that would fill the disk.
pub(super) fn has_room(path: &Path, settings: &Settings) -> Result<(), EnvironmentError> {
    let Some(there) = path.ancestors().find(|dir| dir.is_dir()) else { return Ok(()) };
    let stat = rustix::fs::statvfs(there).map_err(|error| EnvironmentError::Io {
        what: format!("{} cannot be measured", there.display()),
        source: error.into(),
    })?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free < settings.min_free_disk() {
        let wanted = human_size(settings.min_free_disk());
        return Err(EnvironmentError::Create(CreateError::LittleSpace {
            path: there.to_owned(),
            free: human_size(free),
            wanted,
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_not_left_by_words_or_links() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("root-outside"));
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        assert!(is_beneath(&root.join("a"), &root));
        assert!(is_beneath(&root.join("a/not/yet/there"), &root));
        assert!(!is_beneath(&outside, &root));
        assert!(!is_beneath(&root.join("link/x"), &root));
        assert!(!is_beneath(&root.join("a/../../root-outside"), &root));
        assert!(!is_beneath(&root.join("a"), &dir.path().join("missing")));
    }
}
