//! Checks a new worktree, since git's exit code is not proof.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use super::{AddWorktreeError, CreatedWorktree};
use crate::parse::{self, WorktreeStatus};
use crate::{GitError, GitLocation, Repository};

/// A defect of a worktree that was just created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeFlaw {
    /// `.git`, `gitdir` or `commondir` does not point where it must.
    Link {
        file: PathBuf,
        says: String,
    },
    Unreadable {
        file: PathBuf,
        why: String,
    },
    Head {
        says: String,
    },
    /// Files differ from the commit.
    Changed {
        files: usize,
    },
    Untracked {
        files: usize,
    },
    LockFile(PathBuf),
    /// Git cannot read the index that it wrote: with `core.splitIndex` and `index.skipHash` together it
    /// looks for a shared index by a checksum that it left out.
    SharedIndex,
}

impl fmt::Display for WorktreeFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorktreeFlaw::Link { file, says } => write!(f, "{} says `{says}`", file.display()),
            WorktreeFlaw::Unreadable { file, why } => write!(f, "{} cannot be read ({why})", file.display()),
            WorktreeFlaw::Head { says } => write!(f, "it is on {says}"),
            WorktreeFlaw::Changed { files } => write!(f, "{files} files differ from the commit"),
            WorktreeFlaw::Untracked { files } => write!(f, "it holds {files} files that the commit does not have"),
            WorktreeFlaw::LockFile(path) => write!(f, "git left {} behind", path.display()),
            WorktreeFlaw::SharedIndex => {
                f.write_str("git cannot read its own index with `core.splitIndex` and `index.skipHash` together")
            }
        }
    }
}

/// Checks links, HEAD, index, files and lock files; returns git's status of it, and warnings.
pub(super) async fn verify_worktree(
    repo: &Repository,
    created: &CreatedWorktree,
) -> Result<(WorktreeStatus, Vec<String>), AddWorktreeError> {
    let flawed = AddWorktreeError::Flawed;
    check_links(repo, created).map_err(flawed)?;
    no_lock_file(&created.admin_dir).map_err(flawed)?;
    // Not pinned on purpose: a person's git must find the repository by the links alone.
    let status = repo.git().new_command(GitLocation::Dir(&created.path), "status");
    // The last flag: git must not read `.gitmodules`, which can make it fail.
    let flags = ["--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=none"];
    let status = status.args(flags).with_long_timeout().run().await?;
    let status = parse::parse_status(&status.stdout)?;
    let on = status.branch.as_deref() == Some(created.branch.as_str()) && status.head.as_ref() == Some(&created.head);
    if !on {
        let branch = status.branch.as_deref().unwrap_or("no branch");
        let head = status.head.as_ref().map_or("no commit", |sha| sha.as_str());
        return Err(AddWorktreeError::Flawed(WorktreeFlaw::Head { says: format!("{branch} at {head}") }));
    }
    if (status.counts.untracked > 0 || status.is_changed()) && has_unnamed_shared_index(&created.admin_dir) {
        return Err(AddWorktreeError::Flawed(WorktreeFlaw::SharedIndex));
    }
    if status.counts.untracked > 0 {
        return Err(AddWorktreeError::Flawed(WorktreeFlaw::Untracked { files: status.counts.untracked }));
    }
    if !status.is_changed() {
        return Ok((status, Vec::new()));
    }
    let counts = &status.counts;
    let files = counts.staged + counts.unstaged + counts.conflicts + counts.submodules;
    if counts.staged + counts.conflicts > 0 || !changed_by_attributes(repo, &created.path).await? {
        return Err(AddWorktreeError::Flawed(WorktreeFlaw::Changed { files }));
    }
    let warning = format!(
        "git shows {files} files as changed right after the checkout: the repository's own line-ending or filter rules do not fit its files"
    );
    Ok((status, vec![warning]))
}

fn check_links(repo: &Repository, created: &CreatedWorktree) -> Result<(), WorktreeFlaw> {
    let read = |file: &Path| {
        let text = fs::read_to_string(file);
        text.map_err(|error| WorktreeFlaw::Unreadable { file: file.to_owned(), why: error.to_string() })
    };
    let expect = |file: PathBuf, right: &dyn Fn(&str) -> bool| {
        let text = read(&file)?;
        let text = text.trim_end_matches('\n');
        if right(text) { Ok(()) } else { Err(WorktreeFlaw::Link { file, says: text.to_owned() }) }
    };
    let same =
        |left: &Path, right: &Path| matches!((left.canonicalize(), right.canonicalize()), (Ok(a), Ok(b)) if a == b);
    let dot_git = created.path.join(".git");
    let admin = &created.admin_dir;
    expect(dot_git.clone(), &|text| {
        text.strip_prefix("gitdir: ").is_some_and(|dir| same(&created.path.join(dir), admin))
    })?;
    expect(admin.join("gitdir"), &|text| same(&admin.join(text), &dot_git))?;
    expect(admin.join("commondir"), &|text| !text.is_empty() && same(&admin.join(text), &repo.common_dir))
}

/// Tells whether git wrote a shared index under the all-zero checksum.
fn has_unnamed_shared_index(admin_dir: &Path) -> bool {
    let entries = fs::read_dir(admin_dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let name = entry.file_name();
        let checksum = name.to_str().and_then(|name| name.strip_prefix("sharedindex."));
        checksum.is_some_and(|checksum| checksum.bytes().all(|byte| byte == b'0'))
    })
}

fn no_lock_file(admin_dir: &Path) -> Result<(), WorktreeFlaw> {
    let unreadable =
        |error: std::io::Error| WorktreeFlaw::Unreadable { file: admin_dir.to_owned(), why: error.to_string() };
    for entry in fs::read_dir(admin_dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "lock") {
            return Err(WorktreeFlaw::LockFile(path));
        }
    }
    Ok(())
}

/// Tells whether every changed file is one whose bytes git rewrites by rule (line endings,
/// encodings, filters). Such a repository looks dirty after any checkout, also after git's own.
async fn changed_by_attributes(repo: &Repository, work_tree: &Path) -> Result<bool, GitError> {
    let git = repo.git();
    let deleted = git.new_command(GitLocation::Dir(work_tree), "ls-files").args(["-z", "--deleted"]).run().await?;
    if !deleted.stdout.is_empty() {
        return Ok(false);
    }
    let modified =
        git.new_command(GitLocation::Dir(work_tree), "ls-files").args(["-z", "--modified"]).run().await?.stdout;
    let converted = git
        .new_command(GitLocation::Dir(work_tree), "config")
        .args(["--get", "core.autocrlf"])
        .run_for(&[0, 1])
        .await?;
    if matches!(converted.stdout.trim_ascii_end(), b"true" | b"input") {
        return Ok(true);
    }
    let attributes = ["text", "eol", "crlf", "ident", "filter", "working-tree-encoding"];
    let check = git.new_command(GitLocation::Dir(work_tree), "check-attr").args(["-z", "--stdin"]).args(attributes);
    let answer = check.with_stdin(modified).run().await?.stdout;
    // `path NUL attribute NUL value NUL` for each attribute of each path.
    let fields: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
    let rows: Vec<&[&[u8]]> = fields.chunks_exact(3).collect();
    Ok(!rows.is_empty()
        && rows
            .chunks(attributes.len())
            .all(|file| file.iter().any(|row| !matches!(row[2], b"unspecified" | b"unset"))))
}
