//! Shows the changes in a worktree since a commit: committed, staged, unstaged and untracked.
//!
//! Git's `diff` leaves untracked files out. They are entered into a copy of the index, as empty files of
//! which git knows no size and no time, so `diff` takes what is on the disk. Nothing in the repository or in
//! the worktree changes, and a file that vanishes meanwhile is simply not shown.

use std::path::Path;
use std::{fs, io};

use crate::settled::{TemporaryFile, temporary_index};
use crate::{GitError, GitLocation, Repository};

/// Larger files are shown as binary, so that no file fills the memory.
const MAX_TEXT_FILE: &str = "core.bigFileThreshold=16m";

/// The name of the empty file, which git knows without an object: for SHA-1 and for SHA-256.
const EMPTY_BLOB_SHA1: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
const EMPTY_BLOB_SHA256: &str = "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiffFormat {
    #[default]
    Patch,
    /// The files with the number of changed lines.
    Stat,
    /// The names of the files, each followed by NUL.
    Names,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct DiffOptions {
    pub format: DiffFormat,
    pub colour: bool,
}

/// The changes in a worktree.
#[derive(Clone, Debug)]
pub struct WorktreeDiff {
    pub text: Vec<u8>,
    /// The number of repositories inside the worktree, whose files are not shown.
    pub nested_repositories: usize,
}

/// Returns the changes in the worktree at `path` since the commit `began`. `entry` is git's entry.
pub async fn diff_since(
    repo: &Repository,
    path: &Path,
    entry: &Path,
    began: &str,
    options: DiffOptions,
) -> Result<WorktreeDiff, GitError> {
    let place = GitLocation::Worktree { work_tree: path, git_dir: entry, common_dir: &repo.common_dir };
    let others = repo.git().new_command(place, "ls-files").args(["-z", "--others", "--exclude-standard"]);
    let others = others.inspecting_worktree().run().await?.stdout;
    // The name of a repository inside ends with a slash.
    let (nested, untracked): (Vec<&[u8]>, Vec<&[u8]>) =
        others.split(|byte| *byte == 0).filter(|name| !name.is_empty()).partition(|name| name.ends_with(b"/"));
    let index = match untracked[..] {
        [] => None,
        _ => Some(index_with_files(repo, place, entry, &untracked).await?),
    };
    let diff = repo.git().new_command(place, "diff").with_config(MAX_TEXT_FILE);
    let diff = match &index {
        Some(index) => diff.with_env("GIT_INDEX_FILE", &index.0),
        None => diff,
    };
    let diff = diff.arg(if options.colour { "--color=always" } else { "--color=never" });
    let diff = match options.format {
        DiffFormat::Patch => diff,
        DiffFormat::Stat => diff.arg("--stat"),
        DiffFormat::Names => diff.args(["--name-only", "-z"]),
    };
    let diff = diff.args(["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--end-of-options"]);
    let text = diff.args([began, "--"]).inspecting_worktree().run().await?.stdout;
    Ok(WorktreeDiff { text, nested_repositories: nested.len() })
}

/// Copies the index of a worktree and enters these files into the copy.
async fn index_with_files(
    repo: &Repository,
    place: GitLocation<'_>,
    entry: &Path,
    files: &[&[u8]],
) -> Result<TemporaryFile, GitError> {
    let failed = |error: io::Error| GitError::unreadable_output("index", error.to_string());
    let copy = temporary_index(&repo.common_dir).map_err(failed)?;
    let index = entry.join("index");
    match index.symlink_metadata() {
        Ok(meta) if meta.is_file() => drop(fs::copy(&index, &copy.0).map_err(failed)?),
        Ok(_) => return Err(failed(io::Error::other("it is not a plain file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let hash = repo.new_command("rev-parse").arg("--show-object-format").run_to_text().await?;
    let empty = if hash == "sha256" { EMPTY_BLOB_SHA256 } else { EMPTY_BLOB_SHA1 };
    let mut entries = Vec::new();
    for file in files {
        entries.extend_from_slice(format!("100644 {empty}\t").as_bytes());
        entries.extend_from_slice(file);
        entries.push(0);
    }
    // Not split: git would write the shared part of a split index beside the real one.
    let update = repo.git().new_command(place, "update-index").with_config("core.splitIndex=false");
    let update = update.with_env("GIT_INDEX_FILE", &copy.0).args(["-z", "--index-info"]).with_stdin(entries);
    update.inspecting_worktree().run().await?;
    Ok(copy)
}
