//! Builds the worktree and git's entry for it aside and publishes them by two renames.
//!
//! Both are built under names that carry the creation's nonce: the files in `.grove-<nonce>` beside
//! the final path, the entry in `.git/grove/staging-<nonce>`. First the entry appears, locked with
//! the nonce, which git takes for a worktree on a disk that is not mounted; then the files. So
//! everything that is found after a crash is either under such a name or behind such a lock, and
//! nothing else is ever touched.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use grove_model::Nonce;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{AddWorktreeError, CreatedWorktree, CreationJournal, CreationStep, TargetError};
use crate::durable::{sync_dir, write_synced};
use crate::lock::{grove_dir, repository_lock};
use crate::settled::{stamp_of, vouch_for};
use crate::{GitError, GitLocation, Repository};

/// Returns the path where the entry with this nonce is built: as deep as its final path, since git
/// already follows `commondir` while it fills the entry.
pub(super) fn staged_entry(repo: &Repository, nonce: Nonce) -> PathBuf {
    repo.common_dir.join("grove").join(format!("staging-{nonce}"))
}

/// Returns the path where the files are checked out before they appear at `path`.
pub(crate) fn staged_files(path: &Path, nonce: Nonce) -> PathBuf {
    path.with_file_name(format!(".grove-{nonce}"))
}

/// Creates the missing directories above the worktree, recording each in `made`.
fn make_parents(path: &Path, made: &mut Vec<PathBuf>) -> Result<(), AddWorktreeError> {
    let mut missing: Vec<&Path> = path.ancestors().skip(1).take_while(|dir| !dir.is_dir()).collect();
    missing.reverse();
    for dir in missing {
        match fs::create_dir(dir) {
            Ok(()) => made.push(dir.to_owned()),
            // Another process creates a worktree beside ours at this moment.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            Err(error) => return Err(AddWorktreeError::io_error(format!("{} cannot be made", dir.display()))(error)),
        }
    }
    Ok(())
}

/// Creates a directory beside the worktree. A process that undoes a creation in the same folder
/// removes empty parents, so they may have to be created again.
fn make_beside(path: &Path, made: &mut Vec<PathBuf>, dir: &Path) -> Result<(), AddWorktreeError> {
    for _ in 0..20 {
        make_parents(path, made)?;
        match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => return done.map_err(AddWorktreeError::io_error(format!("{} cannot be made", dir.display()))),
        }
    }
    Err(AddWorktreeError::io_error(format!("{} cannot be made", dir.display()))(io::ErrorKind::NotFound.into()))
}

/// Checks the files out and makes the worktree known to git, locked with the nonce.
pub(super) async fn publish_worktree(
    repo: &Repository,
    created: &mut CreatedWorktree,
    nonce: Nonce,
    journal: &dyn CreationJournal,
) -> Result<(), AddWorktreeError> {
    if needs_plain_git(repo) {
        publish_plainly(repo, created, nonce).await
    } else {
        publish_staged(repo, created, nonce, journal).await
    }
}

/// Tells whether the repository's entries hold more than we know how to build.
pub(crate) fn needs_plain_git(repo: &Repository) -> bool {
    let has = |name: &str| repo.common_dir.join(name).exists();
    has("reftable") || has("config.worktree") || has("info/sparse-checkout")
}

async fn publish_staged(
    repo: &Repository,
    created: &mut CreatedWorktree,
    nonce: Nonce,
    journal: &dyn CreationJournal,
) -> Result<(), AddWorktreeError> {
    let path = created.path.clone();
    let staging = StagedWorktree { path: &path, entry: staged_entry(repo, nonce), files: staged_files(&path, nonce) };
    staging.make_entry(repo)?;
    staging.make_files(&mut created.made_parents)?;
    staging.write_entry(&format!("ref: {}", created.branch.full_ref()), &nonce.to_string())?;
    journal.record_step(CreationStep::Staged).await?;
    let stamp = staging.check_out(repo).await?;
    journal.record_step(CreationStep::CheckedOut).await?;
    created.admin_dir = staging.publish_entry(repo)?;
    // No other process has seen the files yet.
    vouch_for(&repo.common_dir, &created.admin_dir, &stamp);
    journal.record_step(CreationStep::EntryPublished).await?;
    staging.publish_files()
}

/// A worktree that is being built aside: its final path, and its path until then.
pub(crate) struct StagedWorktree<'a> {
    pub path: &'a Path,
    /// Git's entry.
    pub entry: PathBuf,
    pub files: PathBuf,
}

fn entry_error(what: &'static str) -> impl FnOnce(io::Error) -> AddWorktreeError {
    AddWorktreeError::io_error(format!("git's entry cannot be made ({what})"))
}

impl StagedWorktree<'_> {
    pub fn make_entry(&self, repo: &Repository) -> Result<(), AddWorktreeError> {
        grove_dir(&repo.common_dir).and_then(|_| fs::create_dir(&self.entry)).map_err(entry_error("staging"))
    }

    /// Creates the folder for the files, and the missing ones above it, recording each in `made`.
    pub fn make_files(&self, made: &mut Vec<PathBuf>) -> Result<(), AddWorktreeError> {
        make_beside(self.path, made, &self.files)
    }

    /// Writes the entry with this `HEAD` and this lock.
    pub fn write_entry(&self, head: &str, lock: &str) -> Result<(), AddWorktreeError> {
        let write = |name: &'static str, text: &str| {
            write_synced(&self.entry.join(name), format!("{text}\n")).map_err(entry_error(name))
        };
        // The lock, which names the owner, comes first.
        write("locked", lock)?;
        write("HEAD", head)?;
        write("commondir", "../..")?;
        write("gitdir", &format!("{}/.git", self.path.display()))
    }

    /// Checks the files out; returns a stamp of the index that is right for them.
    pub async fn check_out(&self, repo: &Repository) -> Result<Vec<u8>, AddWorktreeError> {
        let place =
            GitLocation::Worktree { work_tree: &self.files, git_dir: &self.entry, common_dir: &repo.common_dir };
        let reset = repo.git().new_command(place, "reset").args(["--hard", "--no-recurse-submodules"]);
        let reset = match repo.git().progress_callback() {
            Some(_) => reset.with_env("GIT_PROGRESS_DELAY", "1").reporting_progress(),
            None => reset.arg("--quiet"),
        };
        // More than one worker pays off even on two cores: git waits for zlib and the disk in turns.
        let reset = reset.with_config("checkout.workers=0").with_long_timeout().run().await;
        reset.map_err(checkout_failed)?;
        let index = self.entry.join("index");
        File::open(&index).and_then(|index| index.sync_all()).map_err(entry_error("index"))?;
        let stamp = stamp_of(&index).map_err(entry_error("index"))?;
        sync_dir(&self.entry).map_err(entry_error("staging"))?;
        Ok(stamp)
    }

    /// Renames the entry to the first free name, after the files' `.git` names it.
    pub fn publish_entry(&self, repo: &Repository) -> Result<PathBuf, AddWorktreeError> {
        self.try_publish_entry(repo).map_err(entry_error("publish"))
    }

    fn try_publish_entry(&self, repo: &Repository) -> io::Result<PathBuf> {
        let entries = repo.common_dir.join("worktrees");
        fs::create_dir_all(&entries)?;
        let stem = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut number = 0;
        loop {
            let admin = entries.join(if number == 0 { stem.clone() } else { format!("{stem}{number}") });
            if admin.symlink_metadata().is_ok() {
                number += 1;
                continue;
            }
            write_synced(&self.files.join(".git"), format!("gitdir: {}\n", admin.display()))?;
            match renameat_with(CWD, &self.entry, CWD, &admin, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    sync_dir(&entries)?;
                    return Ok(admin);
                }
                Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => number += 1,
                // Git removes the folder with the last worktree.
                Err(rustix::io::Errno::NOENT) if self.entry.exists() => fs::create_dir_all(&entries)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub fn publish_files(&self) -> Result<(), AddWorktreeError> {
        match renameat_with(CWD, &self.files, CWD, self.path, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => {
                return Err(TargetError::Files(self.path.to_owned()).into());
            }
            Err(error) => return Err(entry_error("rename")(error.into())),
        }
        let synced = sync_dir(self.path).and_then(|()| self.path.parent().map_or(Ok(()), sync_dir));
        synced.map_err(entry_error("sync"))
    }
}

/// Runs `git worktree add` itself, one at a time among our own processes. It locks its entry with
/// the nonce before anything else.
async fn publish_plainly(
    repo: &Repository,
    created: &mut CreatedWorktree,
    nonce: Nonce,
) -> Result<(), AddWorktreeError> {
    make_parents(&created.path, &mut created.made_parents)?;
    add_plainly(repo, &created.path, &[], created.branch.as_str(), &nonce.to_string()).await?;
    let io = |error| AddWorktreeError::io_error("git's entry cannot be read")(error);
    let entry = super::withdraw::entry_locked_with(repo, nonce).map_err(io)?;
    created.admin_dir = entry.ok_or_else(|| io(io::ErrorKind::NotFound.into()))?;
    for name in ["HEAD", "commondir", "gitdir", "index"] {
        File::open(created.admin_dir.join(name)).and_then(|file| file.sync_all()).map_err(io)?;
    }
    sync_dir(&created.admin_dir).map_err(io)
}

/// Runs `git worktree add` for a branch or commit, locked with this reason.
pub(crate) async fn add_plainly(
    repo: &Repository,
    path: &Path,
    flags: &[&str],
    what: &str,
    lock: &str,
) -> Result<(), AddWorktreeError> {
    let one_at_a_time = repository_lock(&repo.common_dir, "worktree-add.lock").await;
    let _lock = one_at_a_time.map_err(AddWorktreeError::io_error("the repository's directory cannot be written"))?;
    let add = repo.new_command("worktree").args(["add", "--quiet", "--lock", "--reason", lock]).args(flags);
    add.arg("--").arg(path).arg(what).with_long_timeout().run().await.map_err(checkout_failed)?;
    Ok(())
}

fn checkout_failed(error: GitError) -> AddWorktreeError {
    match error {
        GitError::Failed { line, .. } => AddWorktreeError::Checkout { line },
        other => other.into(),
    }
}

/// Removes the lock; another process that saw the record may have done so already.
pub(crate) fn remove_lock(admin_dir: &Path) -> io::Result<()> {
    match fs::remove_file(admin_dir.join("locked")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => sync_dir(admin_dir),
    }
}
