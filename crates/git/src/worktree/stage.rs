//! The worktree and git's entry for it, built aside and published by two renames.
//!
//! Both are built under names that carry the creation's nonce: the files in `.grove-<nonce>` beside
//! the final path, the entry in `.git/grove/staging-<nonce>`. First the entry appears, locked with
//! the nonce, which git takes for a worktree on a disk that is away; then the files. Whatever is
//! found after a crash is therefore either under such a name or behind such a lock, and nothing
//! else is ever touched.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use grove_model::Nonce;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{AddError, Created, Journal, Step, TargetError};
use crate::durable::{sync_dir, write_synced};
use crate::lock::{grove_dir, repository_lock};
use crate::settled::{stamp_of, vouch_for};
use crate::{GitError, Place, Repository};

/// Where the entry with this nonce is built: as deep as where it will be, since git follows
/// `commondir` already while it fills the entry.
pub(super) fn staged_entry(repo: &Repository, nonce: Nonce) -> PathBuf {
    repo.common_dir.join("grove").join(format!("staging-{nonce}"))
}

/// Where the files are checked out before they appear at `path`.
pub(super) fn staged_files(path: &Path, nonce: Nonce) -> PathBuf {
    path.with_file_name(format!(".grove-{nonce}"))
}

/// Makes the directories above the worktree that are missing, noting each.
fn make_parents(path: &Path, made: &mut Vec<PathBuf>) -> Result<(), AddError> {
    let mut missing: Vec<&Path> = path.ancestors().skip(1).take_while(|dir| !dir.is_dir()).collect();
    missing.reverse();
    for dir in missing {
        match fs::create_dir(dir) {
            Ok(()) => made.push(dir.to_owned()),
            // Somebody else makes a worktree beside ours at this moment.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            Err(error) => return Err(AddError::io(format!("{} cannot be made", dir.display()))(error)),
        }
    }
    Ok(())
}

/// Makes a directory beside the worktree. Whoever undoes a creation next door takes empty parents
/// away, so they may have to be made again.
fn make_beside(created: &mut Created, dir: &Path) -> Result<(), AddError> {
    for _ in 0..20 {
        make_parents(&created.path, &mut created.made_parents)?;
        match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => return done.map_err(AddError::io(format!("{} cannot be made", dir.display()))),
        }
    }
    Err(AddError::io(format!("{} cannot be made", dir.display()))(io::ErrorKind::NotFound.into()))
}

/// Checks the files out and makes the worktree known to git, locked with the nonce.
pub(super) async fn publish(
    repo: &Repository,
    created: &mut Created,
    nonce: Nonce,
    journal: &dyn Journal,
) -> Result<(), AddError> {
    if needs_plain_git(repo) { plain(repo, created, nonce).await } else { staged(repo, created, nonce, journal).await }
}

/// Repositories whose entries hold more than we know how to build.
fn needs_plain_git(repo: &Repository) -> bool {
    let has = |name: &str| repo.common_dir.join(name).exists();
    has("reftable") || has("config.worktree") || has("info/sparse-checkout")
}

async fn staged(repo: &Repository, created: &mut Created, nonce: Nonce, journal: &dyn Journal) -> Result<(), AddError> {
    let (entry, files) = (staged_entry(repo, nonce), staged_files(&created.path, nonce));
    let io = |what: &'static str| move |error| AddError::io(format!("git's entry cannot be made ({what})"))(error);
    grove_dir(&repo.common_dir).and_then(|_| fs::create_dir(&entry)).map_err(io("staging"))?;
    make_beside(created, &files)?;
    let write = |name: &str, text: &str| write_synced(&entry.join(name), text);
    write("HEAD", &format!("ref: {}\n", created.branch.full_ref())).map_err(io("HEAD"))?;
    write("commondir", "../..\n").map_err(io("commondir"))?;
    write("gitdir", &format!("{}/.git\n", created.path.display())).map_err(io("gitdir"))?;
    write("locked", &format!("{nonce}\n")).map_err(io("locked"))?;
    journal.step(Step::Staged).await?;

    let place = Place::Worktree { work_tree: &files, git_dir: &entry, common_dir: &repo.common_dir };
    let reset = repo.git().command(place, "reset").args(["--hard", "--quiet", "--no-recurse-submodules"]);
    // More workers than one pay off even on two cores: git waits for zlib and the disk in turns.
    let reset = reset.config("checkout.workers=0").long().run().await;
    reset.map_err(checkout_failed)?;
    File::open(entry.join("index")).and_then(|index| index.sync_all()).map_err(io("index"))?;
    let stamp = stamp_of(&entry.join("index")).map_err(io("index"))?;
    sync_dir(&entry).map_err(io("staging"))?;
    journal.step(Step::CheckedOut).await?;

    created.admin_dir = publish_entry(repo, created, &entry, &files).map_err(|error| io("publish")(error))?;
    // Nobody has seen the files yet.
    vouch_for(&repo.common_dir, &created.admin_dir, &stamp);
    journal.step(Step::EntryPublished).await?;
    match renameat_with(CWD, &files, CWD, &created.path, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => {
            return Err(TargetError::Files(created.path.clone()).into());
        }
        Err(error) => return Err(io("rename")(error.into())),
    }
    let synced = sync_dir(&created.path).and_then(|()| created.path.parent().map_or(Ok(()), sync_dir));
    synced.map_err(io("sync"))
}

/// Renames the entry to the first free name, after the files' `.git` points there.
fn publish_entry(repo: &Repository, created: &Created, entry: &Path, files: &Path) -> io::Result<PathBuf> {
    let entries = repo.common_dir.join("worktrees");
    fs::create_dir_all(&entries)?;
    let stem = created.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut number = 0;
    loop {
        let admin = entries.join(if number == 0 { stem.clone() } else { format!("{stem}{number}") });
        if admin.symlink_metadata().is_ok() {
            number += 1;
            continue;
        }
        write_synced(&files.join(".git"), format!("gitdir: {}\n", admin.display()))?;
        match renameat_with(CWD, entry, CWD, &admin, RenameFlags::NOREPLACE) {
            Ok(()) => {
                sync_dir(&entries)?;
                return Ok(admin);
            }
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => number += 1,
            // When the last worktree goes, git takes the folder away.
            Err(rustix::io::Errno::NOENT) if entry.exists() => fs::create_dir_all(&entries)?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// `git worktree add` itself, one at a time among our own processes. It locks its entry with the
/// nonce before anything else.
async fn plain(repo: &Repository, created: &mut Created, nonce: Nonce) -> Result<(), AddError> {
    let lock = repository_lock(&repo.common_dir, "worktree-add.lock").await;
    let _lock = lock.map_err(AddError::io("the repository's directory cannot be written"))?;
    make_parents(&created.path, &mut created.made_parents)?;
    let add = repo.command("worktree").args(["add", "--quiet", "--lock", "--reason", &nonce.to_string(), "--"]);
    let added = add.arg(&created.path).arg(created.branch.as_str()).long().run().await;
    added.map_err(checkout_failed)?;
    let io = |error| AddError::io("git's entry cannot be read")(error);
    let entry = super::withdraw::entry_locked_with(repo, nonce).map_err(io)?;
    created.admin_dir = entry.ok_or_else(|| io(io::ErrorKind::NotFound.into()))?;
    for name in ["HEAD", "commondir", "gitdir", "index"] {
        File::open(created.admin_dir.join(name)).and_then(|file| file.sync_all()).map_err(io)?;
    }
    sync_dir(&created.admin_dir).map_err(io)
}

fn checkout_failed(error: GitError) -> AddError {
    match error {
        GitError::Failed { line, .. } => AddError::Checkout { line },
        other => other.into(),
    }
}

/// Takes the lock away; somebody who saw the record may have been quicker.
pub(super) fn unlock(admin_dir: &Path) -> io::Result<()> {
    match fs::remove_file(admin_dir.join("locked")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => sync_dir(admin_dir),
    }
}
