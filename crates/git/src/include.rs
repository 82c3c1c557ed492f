//! Copies git-ignored files that the work needs (`.env`, local settings) into a new worktree.
//!
//! `.worktreeinclude` in the canonical checkout and the setting `worktree.copy` name them in
//! gitignore syntax. Git itself does the matching; a file is copied when the patterns match it, the
//! canonical checkout does not track it and the new worktree ignores it, so that a copy never shows
//! up as a change. Nothing is followed out of either tree: files are opened beneath their roots,
//! and a link that points outside is refused while the rest is copied.

use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, PermissionsExt};
use rustix::fs::ioctl_ficlone;

use crate::parse::path_from_bytes as parse_path;
use crate::{GitError, GitLocation, Repository};

pub const INCLUDE_FILE: &str = ".worktreeinclude";

#[derive(Debug, Default, PartialEq, Eq)]
pub struct IncludeOutcome {
    pub copied: usize,
    /// Files that were requested and not copied, each with the reason.
    pub refused: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum IncludeError {
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Copies the files that the patterns name from the canonical checkout to `work_tree`.
pub async fn copy_ignored(
    repo: &Repository,
    work_tree: &Path,
    setting: &[String],
) -> Result<IncludeOutcome, IncludeError> {
    let mut included = IncludeOutcome::default();
    if repo.bare {
        return Ok(included);
    }
    let file = repo.root.join(INCLUDE_FILE);
    let unreadable = |source| IncludeError::Unreadable { path: file.clone(), source };
    let mut patterns: Vec<String> = match std::fs::read_to_string(&file) {
        Ok(text) => text.lines().map(|line| line.trim_end().to_owned()).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(unreadable(error)),
    };
    patterns.extend(setting.iter().cloned());
    patterns.retain(|pattern| !pattern.is_empty() && !pattern.starts_with('#'));
    patterns.retain(|pattern| {
        let leaves = Path::new(pattern.trim_start_matches('!')).components().any(|part| part == Component::ParentDir);
        if leaves {
            included.refused.push(format!("`{pattern}` leaves the repository"));
        }
        !leaves
    });
    if patterns.is_empty() {
        return Ok(included);
    }

    let mut wanted = matching_files(repo, &patterns).await?;
    wanted.retain(|path| {
        let behind_link = path.ancestors().skip(1).any(|dir| {
            let there = work_tree.join(dir).symlink_metadata();
            !dir.as_os_str().is_empty() && there.is_ok_and(|meta| meta.is_symlink())
        });
        if behind_link {
            included.refused.push(format!("`{}` was not copied: a link stands in its way", path.display()));
        }
        !behind_link
    });
    let ignored = ignored_in(repo, work_tree, &wanted).await?;
    let from = Dir::open_ambient_dir(&repo.root, ambient_authority()).map_err(unreadable)?;
    let to = Dir::open_ambient_dir(work_tree, ambient_authority()).map_err(unreadable)?;
    for path in ignored {
        match copy_file(&from, &to, &path) {
            Ok(true) => included.copied += 1,
            Ok(false) => {}
            Err(why) => included.refused.push(format!("`{}` was not copied: {why}", path.display())),
        }
    }
    Ok(included)
}

/// Returns the untracked files of the canonical checkout that the patterns match.
async fn matching_files(repo: &Repository, patterns: &[String]) -> Result<Vec<PathBuf>, GitError> {
    let place =
        GitLocation::Worktree { work_tree: &repo.root, git_dir: &repo.common_dir, common_dir: &repo.common_dir };
    let list = repo.git().new_command(place, "ls-files").args(["-z", "--others", "--ignored"]);
    let output =
        list.args(patterns.iter().map(|pattern| format!("--exclude={pattern}"))).with_long_timeout().run().await?;
    let paths = output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(parse_path);
    // A slash at the end marks a nested repository, which is not a file to copy.
    Ok(paths.filter(|path| !path.as_os_str().as_bytes().ends_with(b"/")).collect())
}

async fn ignored_in(repo: &Repository, work_tree: &Path, paths: &[PathBuf]) -> Result<Vec<PathBuf>, GitError> {
    let mut stdin = Vec::new();
    for path in paths {
        stdin.extend_from_slice(path.as_os_str().as_bytes());
        stdin.push(0);
    }
    // Exit code 1: none is ignored.
    let check = repo.git().new_command(GitLocation::Dir(work_tree), "check-ignore").args(["-z", "--stdin"]);
    let output = check.with_stdin(stdin).run_for(&[0, 1]).await?;
    Ok(output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(parse_path).collect())
}

/// Copies one file and tells whether it did; a file that the worktree already has stays as it is.
fn copy_file(from: &Dir, to: &Dir, path: &Path) -> Result<bool, String> {
    let text = |error: io::Error| error.to_string();
    if to.symlink_metadata(path).is_ok() {
        return Ok(false);
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        to.create_dir_all(parent).map_err(text)?;
    }
    let meta = from.symlink_metadata(path).map_err(text)?;
    if meta.is_symlink() {
        let target = from.read_link_contents(path).map_err(text)?;
        if !stays_inside(path, &target) {
            return Err("it is a link that leaves the repository".to_owned());
        }
        to.symlink_contents(&target, path).map_err(text)?;
        return Ok(true);
    }
    if !meta.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut source = from.open(path).map_err(text)?;
    let mode = meta.permissions().mode() & 0o777;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    let mut target = to.open_with(path, &options).map_err(text)?;
    if ioctl_ficlone(&target, &source).is_err() {
        let mut buffer = vec![0; 128 * 1024];
        loop {
            let read = source.read(&mut buffer).map_err(text)?;
            if read == 0 {
                break;
            }
            target.write_all(&buffer[..read]).map_err(text)?;
        }
    }
    // Set the mode again: the umask reduced the one that was given at creation.
    target.set_permissions(cap_std::fs::Permissions::from_mode(mode)).map_err(text)?;
    Ok(true)
}

/// Tells whether a relative link at `path` points inside the tree, judged by its text alone.
fn stays_inside(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count() as isize - 1;
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::ParentDir => depth -= 1,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return false,
        }
        if depth < 0 {
            return false;
        }
    }
    true
}
