//! The worktree's entry, built aside and published by one rename.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use grove_model::Nonce;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{AddError, Created};
use crate::lock::{grove_dir, repository_lock};
use crate::{GitError, Place, Repository};

/// Where the entry with this nonce is built: as deep as where it will be, since git follows
/// `commondir` already while it fills the entry.
pub(super) fn staging_dir(repo: &Repository, nonce: Nonce) -> PathBuf {
    repo.common_dir.join("grove").join(format!("staging-{nonce}"))
}

/// Makes the directory of the worktree and those above it that are missing, noting each.
pub(super) fn make_directories(path: &Path, made: &mut Vec<PathBuf>) -> Result<(), AddError> {
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
    let new = fs::DirBuilder::new().mode(0o777).create(path);
    new.map_err(AddError::io(format!("{} cannot be made", path.display())))?;
    made.push(path.to_owned());
    Ok(())
}

/// Checks the files out and makes the worktree known to git, locked with the nonce.
pub(super) async fn publish(repo: &Repository, created: &mut Created, nonce: Nonce) -> Result<(), AddError> {
    if needs_plain_git(repo) { plain(repo, created, nonce).await } else { staged(repo, created, nonce).await }
}

/// Repositories whose entries hold more than we know how to build.
fn needs_plain_git(repo: &Repository) -> bool {
    let has = |name: &str| repo.common_dir.join(name).exists();
    has("reftable") || has("config.worktree") || has("info/sparse-checkout")
}

async fn staged(repo: &Repository, created: &mut Created, nonce: Nonce) -> Result<(), AddError> {
    let staging = staging_dir(repo, nonce);
    let io = |what: &'static str| move |error| AddError::io(format!("git's entry cannot be made ({what})"))(error);
    grove_dir(&repo.common_dir).and_then(|_| fs::create_dir(&staging)).map_err(io("staging"))?;
    let write = |name: &str, text: &str| write_synced(&staging.join(name), text);
    write("HEAD", &format!("ref: {}\n", created.branch.full_ref())).map_err(io("HEAD"))?;
    write("commondir", "../..\n").map_err(io("commondir"))?;
    write("gitdir", &format!("{}/.git\n", created.path.display())).map_err(io("gitdir"))?;
    write("locked", &format!("{nonce}\n")).map_err(io("locked"))?;

    let place = Place::Worktree { work_tree: &created.path, git_dir: &staging, common_dir: &repo.common_dir };
    let reset = repo.git().command(place, "reset").args(["--hard", "--quiet", "--no-recurse-submodules"]);
    // More workers than one pay off even on two cores: git waits for zlib and the disk in turns.
    let reset = reset.config("checkout.workers=0").long().run().await;
    reset.map_err(|error| match error {
        GitError::Failed { line, .. } => AddError::Checkout { line },
        other => other.into(),
    })?;
    File::open(staging.join("index")).and_then(|index| index.sync_all()).map_err(io("index"))?;

    let entries = repo.common_dir.join("worktrees");
    fs::create_dir_all(&entries).map_err(io("worktrees"))?;
    sync_dir(&staging).map_err(io("staging"))?;
    let stem = created.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    for number in 0.. {
        let admin = entries.join(if number == 0 { stem.clone() } else { format!("{stem}{number}") });
        if admin.symlink_metadata().is_ok() {
            continue;
        }
        write_synced(&created.path.join(".git"), &format!("gitdir: {}\n", admin.display())).map_err(io(".git"))?;
        match renameat_with(CWD, &staging, CWD, &admin, RenameFlags::NOREPLACE) {
            Ok(()) => {
                created.admin_dir = admin;
                break;
            }
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => {}
            // When the last worktree goes, git takes the folder away.
            Err(rustix::io::Errno::NOENT) if number < 1000 => fs::create_dir_all(&entries).map_err(io("worktrees"))?,
            Err(error) => return Err(io("rename")(error.into())),
        }
    }
    sync_dir(&entries).and_then(|()| sync_dir(&created.path)).map_err(io("sync"))?;
    created.path.parent().map_or(Ok(()), sync_dir).map_err(io("sync"))
}

/// `git worktree add` itself, one at a time among our own processes.
async fn plain(repo: &Repository, created: &mut Created, nonce: Nonce) -> Result<(), AddError> {
    let lock = repository_lock(&repo.common_dir, "worktree-add.lock").await;
    let _lock = lock.map_err(AddError::io("the repository's directory cannot be written"))?;
    let add = repo.command("worktree").args(["add", "--quiet", "--lock", "--reason", &nonce.to_string(), "--"]);
    let added = add.arg(&created.path).arg(created.branch.as_str()).long().run().await;
    added.map_err(|error| match error {
        GitError::Failed { line, .. } => AddError::Checkout { line },
        other => other.into(),
    })?;
    let io = |error| AddError::io("git's entry cannot be read")(error);
    let text = fs::read_to_string(created.path.join(".git")).map_err(io)?;
    created.admin_dir = created.path.join(text.trim_end().strip_prefix("gitdir: ").unwrap_or_default());
    for name in ["HEAD", "commondir", "gitdir", "index"] {
        File::open(created.admin_dir.join(name)).and_then(|file| file.sync_all()).map_err(io)?;
    }
    sync_dir(&created.admin_dir).map_err(io)
}

pub(super) fn unlock(admin_dir: &Path) -> Result<(), AddError> {
    let unlocked = fs::remove_file(admin_dir.join("locked")).and_then(|()| sync_dir(admin_dir));
    unlocked.map_err(AddError::io("the new worktree cannot be unlocked"))
}

fn write_synced(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
