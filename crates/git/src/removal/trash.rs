//! Stores removed worktrees, and renames them there and back.
//!
//! The files go to `.grove-trash/<id>` beside their old path, git's entry to
//! `.git/grove/trash/<id>/entry`: each stays on its own file system. The manifest beside the entry
//! says where both belong. Between the two renames the entry is locked, so that no `git worktree
//! prune` of another process takes it for a leftover.
//!
//! Every step first checks that it is not done already, so that each can be repeated after a crash.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use grove_model::{BranchName, CommitSha, EnvironmentId, Moment};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};

use super::check::{RemovalCheck, RemovalFindings, RemovalSubject};
use super::{BranchFate, RegenerableFolder, RemovalError, branch, compact, pins};
use crate::durable::{MAX_SMALL_FILE_BYTES, read_plain, read_plain_at, sync_dir, write_synced};
use crate::holder::find_holder;
use crate::lock::grove_dir;
use crate::{Repository, parse, settled};

/// The trash folder, beside the worktrees.
pub const TRASH_FOLDER: &str = ".grove-trash";
const MANIFEST_FILE: &str = "manifest.json";
/// The name of the files' own `.git` while they are in the trash.
pub(super) const TRASHED_GIT_LINK: &str = ".git-in-trash";
/// A lock that is being written.
const UNFINISHED_LOCK_FILE: &str = "grove-locked";
/// Marks a worktree that is being deleted for good.
const DROPPING_FILE: &str = "dropping";

/// Everything that is needed to restore a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrashManifest {
    pub environment: EnvironmentId,
    pub removed_at: Moment,
    /// The worktree's path before its removal.
    pub path: PathBuf,
    /// The path of its files in the trash.
    pub files: PathBuf,
    /// The name of git's entry.
    pub entry: String,
    pub branch: String,
    pub fate: BranchFate,
    /// The branch is deleted only if its commits are elsewhere, which is checked again at that
    /// time.
    pub recount: bool,
    /// The branch that was checked out, unless HEAD was detached; its commit follows.
    pub head_branch: Option<String>,
    pub head: Option<CommitSha>,
    /// A person or another tool had locked the worktree.
    pub locked: bool,
    /// The modification time of the directory itself.
    pub modified: Option<SystemTime>,
    pub submodules: Vec<PathBuf>,
    /// Folders that are deleted early, since their tools make them again.
    #[serde(default)]
    pub regenerable: Vec<RegenerableFolder>,
    /// The findings at the time of the removal; missing if an older version removed the worktree.
    #[serde(default)]
    pub findings: Option<RemovalFindings>,
}

/// A worktree that is in the trash, or is being moved there or back.
#[derive(Clone, Debug)]
pub struct TrashedWorktree {
    pub manifest: TrashManifest,
    /// `.git/grove/trash/<id>`
    aside: PathBuf,
    /// The entry's place in the repository.
    entry: PathBuf,
}

impl TrashManifest {
    pub fn new(id: EnvironmentId, subject: RemovalSubject<'_>, look: &RemovalCheck, now: Moment) -> Self {
        let parent = subject.path.parent().unwrap_or(subject.path);
        Self {
            environment: id,
            removed_at: now,
            path: subject.path.to_owned(),
            files: parent.join(TRASH_FOLDER).join(id.to_string()),
            entry: subject.entry.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            branch: subject.branch.to_string(),
            fate: look.branch.clone(),
            recount: true,
            head_branch: look.head_branch.clone(),
            head: look.head.clone(),
            locked: subject.entry.join("locked").symlink_metadata().is_ok(),
            modified: subject.path.symlink_metadata().and_then(|meta| meta.modified()).ok(),
            submodules: look.submodules.clone(),
            regenerable: look.regenerable.clone(),
            findings: Some(look.findings.clone()),
        }
    }

    /// Parses the manifest that the record kept. Names that lead out of the trash, or out of git's entries,
    /// are refused.
    pub fn parse(text: &str) -> Result<Self, RemovalError> {
        let bad = |what: String| RemovalError::BadManifest(what);
        let manifest: Self = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        let leads_out = |path: &Path| parse::tracked_path(path.as_os_str().as_bytes()).is_err();
        if leads_out(Path::new(&manifest.entry)) || manifest.entry.contains('/') {
            return Err(bad(format!("`{}` is not the name of an entry", manifest.entry)));
        }
        let folders = manifest.regenerable.iter().map(|folder| &folder.path);
        if let Some(path) = manifest.submodules.iter().chain(folders).find(|path| leads_out(path)) {
            return Err(bad(format!("`{}` is not below the worktree", path.display())));
        }
        if !manifest.files.ends_with(Path::new(TRASH_FOLDER).join(manifest.environment.to_string())) {
            return Err(bad(format!("{} is not in the trash", manifest.files.display())));
        }
        Ok(manifest)
    }

    /// Returns the part of its pins' names that follows `refs/grove/`.
    pub fn pins_ref_path(&self) -> String {
        format!("trash/{}", self.environment)
    }
}

impl TrashedWorktree {
    pub fn new(repo: &Repository, manifest: TrashManifest) -> Self {
        let aside = repo.common_dir.join("grove/trash").join(manifest.environment.to_string());
        let entry = repo.common_dir.join("worktrees").join(&manifest.entry);
        Self { manifest, aside, entry }
    }

    /// Returns the folder beside the entry: manifest, reflog and config of the branch, list of
    /// compacted files.
    pub fn records_dir(&self) -> &Path {
        &self.aside
    }

    pub fn entry_in_trash(&self) -> PathBuf {
        self.aside.join("entry")
    }

    /// Tells whether the files are neither in the trash nor at their old path: their disk is not
    /// mounted.
    pub fn files_are_away(&self) -> bool {
        !self.files_are_in_trash() && self.manifest.path.symlink_metadata().is_err()
    }

    pub fn files_are_in_trash(&self) -> bool {
        self.manifest.files.symlink_metadata().is_ok()
    }

    pub fn entry_is_in_trash(&self) -> bool {
        self.entry_in_trash().symlink_metadata().is_ok()
    }

    pub(super) fn branch_name(&self) -> Result<BranchName, RemovalError> {
        BranchName::parse(&self.manifest.branch).map_err(|error| RemovalError::BadManifest(error.to_string()))
    }

    /// Creates the two trash folders, and records what will be in them.
    pub async fn prepare_trash(&self, repo: &Repository) -> Result<(), RemovalError> {
        let parent = self.manifest.files.parent().unwrap_or(&self.manifest.files);
        grove_dir(&repo.common_dir).map_err(cannot_make(&self.aside))?;
        for dir in [parent, &self.aside] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(cannot_make(dir))?;
        }
        // A rename across file systems would have to copy.
        for (thing, place) in [(&self.manifest.path, parent), (&self.entry, &self.aside)] {
            if device_number(thing)? != device_number(place)? {
                return Err(RemovalError::OtherFileSystem(thing.clone()));
            }
        }
        self.write_down(repo).await?;
        if !self.manifest.locked {
            self.lock_entry(&self.entry).map_err(cannot_make(&self.entry))?;
        }
        sync_dir(&self.aside).map_err(cannot_make(&self.aside))
    }

    /// Writes the manifest, and the branch's reflog and config if the branch is to be deleted.
    pub async fn write_down(&self, repo: &Repository) -> Result<(), RemovalError> {
        let text =
            serde_json::to_vec_pretty(&self.manifest).map_err(|error| RemovalError::BadManifest(error.to_string()))?;
        write_synced(&self.aside.join(MANIFEST_FILE), text).map_err(cannot_make(&self.aside))?;
        if matches!(self.manifest.fate, BranchFate::Goes { .. }) {
            branch::keep_traces(repo, &self.branch_name()?, &self.aside).await?;
        }
        Ok(())
    }

    /// Does the first rename: from here on a removal only continues.
    pub fn move_files_to_trash(&self) -> Result<(), RemovalError> {
        if self.files_are_in_trash() {
            return Ok(());
        }
        rename_path(&self.manifest.path, &self.manifest.files)
    }

    /// Does the second rename: git does not know the worktree any more. After it, nothing prevents
    /// the rest of the removal.
    pub fn move_entry_to_trash(&self, repo: &Repository) -> Result<(), RemovalError> {
        if !self.entry_is_in_trash() {
            rename_path(&self.entry, &self.entry_in_trash())?;
        }
        let (path, files) = (self.manifest.path.parent(), self.manifest.files.parent());
        let dirs = [path, files, self.entry.parent().filter(|dir| dir.exists()), Some(&self.aside)];
        let synced = dirs.into_iter().flatten().try_for_each(sync_dir);
        if let Err(error) = synced {
            tracing::warn!("the trash could not be synced: {error}");
        }
        if let Err(error) = self.unlock_entry(&self.entry_in_trash()).and_then(|()| self.cut_off()) {
            tracing::warn!("{error}");
        }
        settled::remove_stamp(&repo.common_dir, &self.entry);
        // Git does the same after it removes the last worktree.
        let _ = fs::remove_dir(repo.common_dir.join("worktrees"));
        Ok(())
    }

    /// Renames the `.git` of the files. A process that still works in them must not reach another worktree
    /// through it: their `.git` names an entry that another worktree may get.
    fn cut_off(&self) -> Result<(), RemovalError> {
        let (link, kept) = (self.manifest.files.join(".git"), self.manifest.files.join(TRASHED_GIT_LINK));
        let failed = || RemovalError::io_error(format!("{} cannot be written", link.display()));
        if kept.symlink_metadata().is_ok() || link.symlink_metadata().is_err() {
            return Ok(());
        }
        self.without_trace(|| {
            fs::rename(&link, &kept)?;
            write_synced(&link, "gitdir: /this/worktree/is/in/the/trash\n")
        })
        .map_err(failed())
    }

    /// Reverts [`Self::cut_off`].
    fn join_again(&self) -> Result<(), RemovalError> {
        let (link, kept) = (self.manifest.files.join(".git"), self.manifest.files.join(TRASHED_GIT_LINK));
        let failed = || RemovalError::io_error(format!("{} cannot be written", link.display()));
        if kept.symlink_metadata().is_err() {
            return Ok(());
        }
        self.without_trace(|| fs::rename(&kept, &link)).map_err(failed())
    }

    /// Does something in the files' folder and restores the folder's time.
    fn without_trace(&self, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let dir = fs::File::open(&self.manifest.files)?;
        work()?;
        self.manifest.modified.map_or(Ok(()), |time| dir.set_modified(time))
    }

    /// Locks an entry with our mark, completely or not at all. A lock that a person or another tool
    /// set serves as well.
    fn lock_entry(&self, entry: &Path) -> io::Result<()> {
        let unfinished = entry.join(UNFINISHED_LOCK_FILE);
        let locked = write_synced(&unfinished, self.lock_reason()).and_then(|()| {
            match renameat_with(CWD, &unfinished, CWD, entry.join("locked"), RenameFlags::NOREPLACE) {
                Ok(()) => Ok(()),
                Err(rustix::io::Errno::EXIST) => fs::remove_file(&unfinished),
                Err(error) => Err(error.into()),
            }
        });
        if locked.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        locked
    }

    /// Deletes the branch if the plan said so and nothing has changed. Tells whether it is gone.
    pub async fn drop_branch(&self, repo: &Repository) -> Result<bool, RemovalError> {
        match &self.manifest.fate {
            BranchFate::Goes { tip } => {
                Ok(branch::delete_branch(repo, &self.branch_name()?, tip, self.manifest.recount, &self.aside).await?)
            }
            BranchFate::Absent => Ok(true),
            _ => Ok(false),
        }
    }

    /// Cancels a removal before the first rename: everything stays as it was.
    pub async fn cancel_removal(&self, repo: &Repository) -> Result<(), RemovalError> {
        if self.entry_is_in_trash() {
            rename_path(&self.entry_in_trash(), &self.entry)?;
        }
        if self.entry.exists() {
            self.unlock_entry(&self.entry)?;
        }
        self.remove_trash_folders()?;
        Ok(pins::remove_pins(repo, &self.manifest.pins_ref_path()).await?)
    }

    /// Checks that an undo would find everything in its place; changes nothing.
    pub async fn can_return(&self, repo: &Repository) -> Result<(), RemovalError> {
        let path = &self.manifest.path;
        if !self.files_are_in_trash() || !self.entry_is_in_trash() {
            return Err(RemovalError::NotInTrash(self.manifest.files.clone()));
        }
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) => return Err(RemovalError::PathTaken(path.clone())),
            Err(error) => return Err(RemovalError::io_error(format!("{} cannot be looked at", path.display()))(error)),
        }
        let held = repo.list_worktrees().await?;
        // A branch that had no commit yet must still have none.
        if let (Some(name), None) = (&self.manifest.head_branch, &self.manifest.head)
            && let Some(now) = repo.commit_of(&format!("refs/heads/{name}")).await?
        {
            let (was, now) = ("nothing".to_owned(), now.short_sha().to_owned());
            return Err(RemovalError::BranchMoved { name: name.clone(), was, now });
        }
        for (name, at) in self.branches_as_they_were() {
            if let Some((at, state)) = find_holder(&held, &name) {
                return Err(RemovalError::BranchHeld { name, at, state });
            }
            match repo.commit_of(&format!("refs/heads/{name}")).await? {
                Some(now) if now != at => {
                    let (was, now) = (at.short_sha().to_owned(), now.short_sha().to_owned());
                    return Err(RemovalError::BranchMoved { name, was, now });
                }
                Some(_) => {}
                None if repo.commit_of(at.as_str()).await?.is_none() => return Err(RemovalError::CommitGone(at)),
                None => {}
            }
        }
        Ok(())
    }

    /// Returns the environment's branch and the one that was checked out, each with its commit at
    /// the removal.
    fn branches_as_they_were(&self) -> Vec<(String, CommitSha)> {
        let TrashManifest { branch, fate, head_branch, head, .. } = &self.manifest;
        let mut found: Vec<_> = head_branch.clone().zip(head.clone()).into_iter().collect();
        // A branch that was not checked out only has to be restored if it was deleted.
        if let (BranchFate::Goes { tip }, true) = (fate, head_branch.as_ref() != Some(branch)) {
            found.push((branch.clone(), tip.clone()));
        }
        found
    }

    /// Does the first rename back: from here on an undo only continues. Updates the entry's place,
    /// which has another name if its own was taken in the meantime.
    pub fn return_entry(&mut self, repo: &Repository) -> Result<(), RemovalError> {
        if !self.entry_is_in_trash() {
            return self.find_entry(repo);
        }
        let entries = repo.common_dir.join("worktrees");
        fs::create_dir_all(&entries).map_err(cannot_make(&entries))?;
        let buried = self.entry_in_trash();
        if !self.manifest.locked {
            self.lock_entry(&buried).map_err(cannot_make(&buried))?;
        }
        let names =
            std::iter::once(self.manifest.entry.clone()).chain((1..).map(|n| format!("{}{n}", self.manifest.entry)));
        for name in names.take(1000) {
            let target = entries.join(&name);
            if target.symlink_metadata().is_ok() {
                continue;
            }
            rename_path(&buried, &target)?;
            self.entry = target;
            return sync_dir(&entries).map_err(cannot_make(&entries));
        }
        Err(RemovalError::PathTaken(entries))
    }

    /// Returns the reason of our lock while an entry is being moved.
    fn lock_reason(&self) -> String {
        format!("grove moves this worktree ({})\n", self.manifest.environment)
    }

    /// Finds the entry that returned already, after a crash: by our mark, or the path that it
    /// belongs to, or its name.
    fn find_entry(&mut self, repo: &Repository) -> Result<(), RemovalError> {
        let failed = |error| RemovalError::io_error("git's entries cannot be looked at")(error);
        let all = crate::links::list_entries(&repo.common_dir).map_err(failed)?;
        let marked = |entry: &&PathBuf| {
            read_plain(&entry.join("locked"), MAX_SMALL_FILE_BYTES)
                .is_ok_and(|text| text == self.lock_reason().as_bytes())
        };
        let of_path = |entry: &&PathBuf| {
            crate::links::worktree_of(entry).is_ok_and(|worktree| worktree.as_deref() == Some(&self.manifest.path))
        };
        let named = |entry: &&PathBuf| entry.ends_with(&self.manifest.entry);
        let found = all.iter().find(marked).or_else(|| all.iter().find(of_path)).or_else(|| all.iter().find(named));
        match found.cloned() {
            Some(entry) => {
                self.entry = entry;
                Ok(())
            }
            None => Err(RemovalError::NotInTrash(self.entry_in_trash())),
        }
    }

    /// Restores the branches that are gone.
    pub async fn return_branches(&self, repo: &Repository) -> Result<(), RemovalError> {
        for (name, at) in self.branches_as_they_were() {
            let branch = BranchName::parse(&name).map_err(|error| RemovalError::BadManifest(error.to_string()))?;
            // Reflog and config were kept of the environment's own branch only.
            let traces = Some(self.records_dir()).filter(|_| name == self.manifest.branch);
            branch::restore_branch(repo, &branch, &at, traces).await?;
        }
        Ok(())
    }

    /// Does the second rename back. Compacted files are written again first.
    pub async fn return_files(&self, repo: &Repository) -> Result<(), RemovalError> {
        let TrashManifest { path, files, .. } = &self.manifest;
        if self.files_are_in_trash() {
            compact::restore_compacted(repo, files, &self.aside).await?;
            self.join_again()?;
            self.relink_worktree(repo)?;
            let parent = path.parent().unwrap_or(path);
            fs::create_dir_all(parent).map_err(cannot_make(parent))?;
            rename_path(files, path)?;
            sync_dir(parent).map_err(cannot_make(parent))?;
        }
        self.unlock_entry(&self.entry)
    }

    /// Makes `.git` of the worktree and of its submodules name the entry by its current name and place: its
    /// own name may have been taken in the meantime, and the repository may have been moved.
    fn relink_worktree(&self, repo: &Repository) -> Result<(), RemovalError> {
        let name = self.entry.file_name().unwrap_or_default().as_bytes();
        let common = repo.common_dir.file_name().unwrap_or_default().as_bytes();
        let before = [common, b"/worktrees/"].concat();
        let root = Dir::open_ambient_dir(&self.manifest.files, ambient_authority())
            .map_err(cannot_make(&self.manifest.files))?;
        for below in std::iter::once(Path::new("")).chain(self.manifest.submodules.iter().map(PathBuf::as_path)) {
            let file = below.join(".git");
            let failed =
                || RemovalError::io_error(format!("{} cannot be written", self.manifest.files.join(&file).display()));
            // A link that leads out of the trash cannot be opened beneath it.
            let folder = match root.open_dir(if below.as_os_str().is_empty() { Path::new(".") } else { below }) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(failed())?,
            };
            let text = match read_plain_at(&folder, Path::new(".git"), MAX_SMALL_FILE_BYTES) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(failed())?,
            };
            // The first match: a submodule may have a name like that.
            let Some(at) = text.windows(before.len()).position(|window| window == before) else { continue };
            let start = at + before.len();
            let end =
                text[start..].iter().position(|byte| matches!(byte, b'/' | b'\n')).map_or(text.len(), |n| start + n);
            // The repository itself may have been moved in the meantime.
            let prefix = match text[..start].strip_prefix(b"gitdir: ").filter(|path| path.starts_with(b"/")) {
                Some(worktrees) if !is_same_folder(&parse::path_from_bytes(worktrees).join(".."), &repo.common_dir) => {
                    [b"gitdir: ", repo.common_dir.as_os_str().as_bytes(), b"/worktrees/"].concat()
                }
                _ => text[..start].to_vec(),
            };
            let renamed = [&prefix, name, &text[end..]].concat();
            if renamed == text {
                continue;
            }
            let write = || {
                let mut file = folder.create(".git")?;
                file.write_all(&renamed)?;
                file.sync_all()
            };
            write().map_err(failed())?;
        }
        Ok(())
    }

    /// Deletes pins and lists, which are not needed any more after an undo.
    pub async fn discard_records(&self, repo: &Repository) -> Result<(), RemovalError> {
        pins::remove_pins(repo, &self.manifest.pins_ref_path()).await?;
        self.remove_trash_folders()
    }

    /// Deletes our own files in the trash; the files of a worktree are not ours.
    fn remove_trash_folders(&self) -> Result<(), RemovalError> {
        if self.entry_is_in_trash() {
            return Err(RemovalError::PathTaken(self.entry_in_trash()));
        }
        if self.aside.exists() {
            fs::remove_dir_all(&self.aside)
                .map_err(RemovalError::io_error(format!("{} cannot be tidied", self.aside.display())))?;
        }
        // Empty parents only.
        for dir in [self.aside.parent(), self.manifest.files.parent()].into_iter().flatten() {
            let _ = fs::remove_dir(dir);
        }
        Ok(())
    }

    /// Deletes files, entry and pins for good. From the first rename on an undo finds nothing, so that an
    /// undo never restores half of it.
    pub async fn delete_permanently(&self, repo: &Repository) -> Result<(), RemovalError> {
        let files = &self.manifest.files;
        let doomed =
            [(files.clone(), files.with_extension("dropped")), (self.entry_in_trash(), self.aside.join("dropped"))];
        for (from, to) in &doomed {
            if from.symlink_metadata().is_ok() && to.symlink_metadata().is_err() {
                rename_path(from, to)?;
            }
        }
        for dir in
            doomed.into_iter().map(|(_, to)| to).chain([compact::shed_place(files), compact::unfinished_file(files)])
        {
            let deleted = compact::delete_slowly(&dir).await;
            deleted.map_err(RemovalError::io_error(format!("{} cannot be deleted", dir.display())))?;
        }
        self.discard_records(repo).await
    }

    /// Tells whether a permanent deletion was started and not finished. Files that are only on a
    /// disk that is not mounted are not being deleted.
    pub fn is_being_dropped(&self) -> bool {
        self.aside.join(DROPPING_FILE).exists() || !self.aside.exists()
    }

    /// Tells whether a folder that was to be deleted early is gone.
    pub fn is_shed(&self, folder: &RegenerableFolder) -> bool {
        let at = self.manifest.files.join(&folder.path).symlink_metadata();
        self.files_are_in_trash() && at.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Returns the folders that are to be deleted early and still exist.
    pub fn regenerable_left(&self) -> Vec<RegenerableFolder> {
        self.manifest.regenerable.iter().filter(|folder| !self.is_shed(folder)).cloned().collect()
    }

    /// Returns the total size in the trash, in bytes.
    pub fn total_size(&self) -> u64 {
        fn disk_size(path: &Path) -> u64 {
            let Ok(meta) = path.symlink_metadata() else { return 0 };
            let below = || {
                fs::read_dir(path).into_iter().flatten().flatten().map(|entry| disk_size(&entry.path())).sum::<u64>()
            };
            meta.blocks() * 512 + if meta.is_dir() { below() } else { 0 }
        }
        disk_size(&self.manifest.files) + disk_size(&self.aside)
    }

    /// Cancels an undo before its first rename: removes the mark in the entry in the trash.
    pub fn cancel_restore(&self) -> Result<(), RemovalError> {
        self.unlock_entry(&self.entry_in_trash())
    }

    /// Reverts the first rename of a removal, when the second fails.
    pub fn return_moved_files(&self) -> Result<(), RemovalError> {
        if self.files_are_in_trash() { rename_path(&self.manifest.files, &self.manifest.path) } else { Ok(()) }
    }

    /// Removes our own lock; a lock that a person or another tool set stays.
    fn unlock_entry(&self, entry: &Path) -> Result<(), RemovalError> {
        let failed = || RemovalError::io_error(format!("{} cannot be unlocked", entry.display()));
        match fs::remove_file(entry.join(UNFINISHED_LOCK_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed()(error)),
            _ => {}
        }
        let lock = entry.join("locked");
        if !read_plain(&lock, MAX_SMALL_FILE_BYTES).is_ok_and(|text| text == self.lock_reason().as_bytes()) {
            return Ok(());
        }
        fs::remove_file(lock).map_err(failed())
    }
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn device_number(path: &Path) -> Result<u64, RemovalError> {
    let meta = path.symlink_metadata();
    Ok(meta.map_err(RemovalError::io_error(format!("{} cannot be looked at", path.display())))?.dev())
}

fn rename_path(from: &Path, to: &Path) -> Result<(), RemovalError> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::XDEV | rustix::io::Errno::BUSY) => Err(RemovalError::OtherFileSystem(from.to_owned())),
        Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => Err(RemovalError::PathTaken(to.to_owned())),
        Err(error) => Err(RemovalError::io_error(format!("{} cannot be moved", from.display()))(error.into())),
    }
}

fn cannot_make(path: &Path) -> impl Fn(io::Error) -> RemovalError {
    let what = format!("{} cannot be written", path.display());
    move |error| RemovalError::io_error(what.clone())(error)
}
