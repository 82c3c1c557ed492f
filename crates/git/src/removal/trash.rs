//! Where removed worktrees wait, and the renames that bring them there and back.
//!
//! The files go to `.grove-trash/<id>` beside where they were, git's entry to
//! `.git/grove/trash/<id>/entry`: each stays on its own file system. The manifest beside the entry
//! says what belongs where. Between the two renames the entry is locked, so that nobody's
//! `git worktree prune` takes it for a leftover.
//!
//! Every step looks first whether it was done already, so that each can be repeated after a crash.

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

use super::look::{Findings, Look, Subject};
use super::{BranchFate, RegenerableFolder, RemovalError, branch, compact, pins};
use crate::durable::{SMALL, read_plain, read_plain_at, sync_dir, write_synced};
use crate::holder::find_holder;
use crate::lock::grove_dir;
use crate::{Repository, parse, settled};

/// Beside the worktrees.
pub const FOLDER: &str = ".grove-trash";
const MANIFEST: &str = "manifest.json";
/// The files' own `.git` while they are here.
pub(super) const KEPT_LINK: &str = ".git-in-trash";
/// A lock that is being written.
const UNFINISHED_LOCK: &str = "grove-locked";
/// Says that it is being deleted for good.
const DROPPING: &str = "dropping";

/// Everything that is needed to bring a worktree back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub environment: EnvironmentId,
    pub removed_at: Moment,
    /// Where it was.
    pub path: PathBuf,
    /// Where its files are.
    pub files: PathBuf,
    /// The name of git's entry.
    pub entry: String,
    pub branch: String,
    pub fate: BranchFate,
    /// The branch goes only if its commits are elsewhere, which is asked again when it does.
    pub recount: bool,
    /// What was checked out: a branch, unless HEAD was detached, and its commit.
    pub head_branch: Option<String>,
    pub head: Option<CommitSha>,
    /// Somebody had locked it.
    pub locked: bool,
    /// The time of the directory itself.
    pub modified: Option<SystemTime>,
    pub submodules: Vec<PathBuf>,
    /// Folders that leave the trash early, since their tools make them again.
    #[serde(default)]
    pub regenerable: Vec<RegenerableFolder>,
    /// What was found when it was put away; missing where an older version did that.
    #[serde(default)]
    pub findings: Option<Findings>,
}

/// A worktree on its way into the trash, in it, or on its way back.
#[derive(Clone, Debug)]
pub struct Trashed {
    pub manifest: Manifest,
    /// `.git/grove/trash/<id>`
    aside: PathBuf,
    /// Where the entry belongs.
    entry: PathBuf,
}

impl Manifest {
    pub fn new(id: EnvironmentId, subject: Subject<'_>, look: &Look, now: Moment) -> Self {
        let parent = subject.path.parent().unwrap_or(subject.path);
        Self {
            environment: id,
            removed_at: now,
            path: subject.path.to_owned(),
            files: parent.join(FOLDER).join(id.to_string()),
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

    /// Reads what the record kept. Names that lead out of the trash, or out of git's entries, are refused.
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
        if !manifest.files.ends_with(Path::new(FOLDER).join(manifest.environment.to_string())) {
            return Err(bad(format!("{} is not in the trash", manifest.files.display())));
        }
        Ok(manifest)
    }

    /// What comes behind `refs/grove/` in the names of its pins.
    pub fn pins(&self) -> String {
        format!("trash/{}", self.environment)
    }
}

impl Trashed {
    pub fn new(repo: &Repository, manifest: Manifest) -> Self {
        let aside = repo.common_dir.join("grove/trash").join(manifest.environment.to_string());
        let entry = repo.common_dir.join("worktrees").join(&manifest.entry);
        Self { manifest, aside, entry }
    }

    /// Beside the entry: manifest, reflog and config of the branch, list of what was compacted.
    pub fn aside(&self) -> &Path {
        &self.aside
    }

    pub fn buried_entry(&self) -> PathBuf {
        self.aside.join("entry")
    }

    /// Whether the files are neither here nor where they were: their disk is away.
    pub fn files_are_away(&self) -> bool {
        !self.files_are_buried() && self.manifest.path.symlink_metadata().is_err()
    }

    pub fn files_are_buried(&self) -> bool {
        self.manifest.files.symlink_metadata().is_ok()
    }

    pub fn entry_is_buried(&self) -> bool {
        self.buried_entry().symlink_metadata().is_ok()
    }

    pub(super) fn branch(&self) -> Result<BranchName, RemovalError> {
        BranchName::parse(&self.manifest.branch).map_err(|error| RemovalError::BadManifest(error.to_string()))
    }

    /// Makes the two trash places, and writes down what will be in them.
    pub async fn prepare(&self, repo: &Repository) -> Result<(), RemovalError> {
        let parent = self.manifest.files.parent().unwrap_or(&self.manifest.files);
        grove_dir(&repo.common_dir).map_err(cannot_make(&self.aside))?;
        for dir in [parent, &self.aside] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(cannot_make(dir))?;
        }
        // A rename over a border would have to copy.
        for (thing, place) in [(&self.manifest.path, parent), (&self.entry, &self.aside)] {
            if device(thing)? != device(place)? {
                return Err(RemovalError::OtherFileSystem(thing.clone()));
            }
        }
        self.write_down(repo).await?;
        if !self.manifest.locked {
            self.lock(&self.entry).map_err(cannot_make(&self.entry))?;
        }
        sync_dir(&self.aside).map_err(cannot_make(&self.aside))
    }

    /// Writes the manifest, and what goes with the branch if that is to go.
    pub async fn write_down(&self, repo: &Repository) -> Result<(), RemovalError> {
        let text =
            serde_json::to_vec_pretty(&self.manifest).map_err(|error| RemovalError::BadManifest(error.to_string()))?;
        write_synced(&self.aside.join(MANIFEST), text).map_err(cannot_make(&self.aside))?;
        if matches!(self.manifest.fate, BranchFate::Goes { .. }) {
            branch::keep_traces(repo, &self.branch()?, &self.aside).await?;
        }
        Ok(())
    }

    /// The first rename: from here on a removal goes forward.
    pub fn bury_files(&self) -> Result<(), RemovalError> {
        if self.files_are_buried() {
            return Ok(());
        }
        rename(&self.manifest.path, &self.manifest.files)
    }

    /// The second rename: git does not know the worktree any more. Once it is done nothing speaks
    /// against going on.
    pub fn bury_entry(&self, repo: &Repository) -> Result<(), RemovalError> {
        if !self.entry_is_buried() {
            rename(&self.entry, &self.buried_entry())?;
        }
        let (path, files) = (self.manifest.path.parent(), self.manifest.files.parent());
        let dirs = [path, files, self.entry.parent().filter(|dir| dir.exists()), Some(&self.aside)];
        let synced = dirs.into_iter().flatten().try_for_each(sync_dir);
        if let Err(error) = synced {
            tracing::warn!("the trash could not be synced: {error}");
        }
        if let Err(error) = self.unlock(&self.buried_entry()).and_then(|()| self.cut_off()) {
            tracing::warn!("{error}");
        }
        settled::forget(&repo.common_dir, &self.entry);
        // As git does when the last worktree goes.
        let _ = fs::remove_dir(repo.common_dir.join("worktrees"));
        Ok(())
    }

    /// Whoever still stands in the files must not reach a successor through them: their `.git` names
    /// an entry that another worktree may get.
    fn cut_off(&self) -> Result<(), RemovalError> {
        let (link, kept) = (self.manifest.files.join(".git"), self.manifest.files.join(KEPT_LINK));
        let failed = || RemovalError::io(format!("{} cannot be written", link.display()));
        if kept.symlink_metadata().is_ok() || link.symlink_metadata().is_err() {
            return Ok(());
        }
        self.without_trace(|| {
            fs::rename(&link, &kept)?;
            write_synced(&link, "gitdir: /this/worktree/is/in/the/trash\n")
        })
        .map_err(failed())
    }

    /// The way back of [`Self::cut_off`].
    fn join_again(&self) -> Result<(), RemovalError> {
        let (link, kept) = (self.manifest.files.join(".git"), self.manifest.files.join(KEPT_LINK));
        let failed = || RemovalError::io(format!("{} cannot be written", link.display()));
        if kept.symlink_metadata().is_err() {
            return Ok(());
        }
        self.without_trace(|| fs::rename(&kept, &link)).map_err(failed())
    }

    /// Does something in the files' folder that its time does not tell.
    fn without_trace(&self, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let dir = fs::File::open(&self.manifest.files)?;
        work()?;
        self.manifest.modified.map_or(Ok(()), |time| dir.set_modified(time))
    }

    /// Locks an entry with our mark, whole or not at all. Somebody's own lock is as good.
    fn lock(&self, entry: &Path) -> io::Result<()> {
        let unfinished = entry.join(UNFINISHED_LOCK);
        let locked = write_synced(&unfinished, self.mark()).and_then(|()| {
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

    /// Deletes the branch where the plan said so and nothing has changed. Whether it is gone.
    pub async fn drop_branch(&self, repo: &Repository) -> Result<bool, RemovalError> {
        match &self.manifest.fate {
            BranchFate::Goes { tip } => {
                Ok(branch::delete(repo, &self.branch()?, tip, self.manifest.recount, &self.aside).await?)
            }
            BranchFate::Absent => Ok(true),
            _ => Ok(false),
        }
    }

    /// Before the first rename: leaves everything as it was.
    pub async fn abandon(&self, repo: &Repository) -> Result<(), RemovalError> {
        if self.entry_is_buried() {
            rename(&self.buried_entry(), &self.entry)?;
        }
        if self.entry.exists() {
            self.unlock(&self.entry)?;
        }
        self.tidy()?;
        Ok(pins::unpin(repo, &self.manifest.pins()).await?)
    }

    /// Whether an undo would find everything in its place; changes nothing.
    pub async fn can_return(&self, repo: &Repository) -> Result<(), RemovalError> {
        let path = &self.manifest.path;
        if !self.files_are_buried() || !self.entry_is_buried() {
            return Err(RemovalError::NotInTrash(self.manifest.files.clone()));
        }
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) => return Err(RemovalError::PathTaken(path.clone())),
            Err(error) => return Err(RemovalError::io(format!("{} cannot be looked at", path.display()))(error)),
        }
        let held = repo.worktrees().await?;
        // A branch that had no commit yet must still have none.
        if let (Some(name), None) = (&self.manifest.head_branch, &self.manifest.head)
            && let Some(now) = repo.commit_of(&format!("refs/heads/{name}")).await?
        {
            let (was, now) = ("nothing".to_owned(), now.short().to_owned());
            return Err(RemovalError::BranchMoved { name: name.clone(), was, now });
        }
        for (name, at) in self.branches_as_they_were() {
            if let Some((at, state)) = find_holder(&held, &name) {
                return Err(RemovalError::BranchHeld { name, at, state });
            }
            match repo.commit_of(&format!("refs/heads/{name}")).await? {
                Some(now) if now != at => {
                    let (was, now) = (at.short().to_owned(), now.short().to_owned());
                    return Err(RemovalError::BranchMoved { name, was, now });
                }
                Some(_) => {}
                None if repo.commit_of(at.as_str()).await?.is_none() => return Err(RemovalError::CommitGone(at)),
                None => {}
            }
        }
        Ok(())
    }

    /// The environment's branch and the one that was checked out, each where it was.
    fn branches_as_they_were(&self) -> Vec<(String, CommitSha)> {
        let Manifest { branch, fate, head_branch, head, .. } = &self.manifest;
        let mut found: Vec<_> = head_branch.clone().zip(head.clone()).into_iter().collect();
        // A branch that HEAD had left only has to be there if it was deleted.
        if let (BranchFate::Goes { tip }, true) = (fate, head_branch.as_ref() != Some(branch)) {
            found.push((branch.clone(), tip.clone()));
        }
        found
    }

    /// The first rename back: from here on an undo goes forward. Gives the entry's place, which has
    /// another name if its own was taken meanwhile.
    pub fn return_entry(&mut self, repo: &Repository) -> Result<(), RemovalError> {
        if !self.entry_is_buried() {
            return self.find_entry(repo);
        }
        let entries = repo.common_dir.join("worktrees");
        fs::create_dir_all(&entries).map_err(cannot_make(&entries))?;
        let buried = self.buried_entry();
        if !self.manifest.locked {
            self.lock(&buried).map_err(cannot_make(&buried))?;
        }
        let names =
            std::iter::once(self.manifest.entry.clone()).chain((1..).map(|n| format!("{}{n}", self.manifest.entry)));
        for name in names.take(1000) {
            let target = entries.join(&name);
            if target.symlink_metadata().is_ok() {
                continue;
            }
            rename(&buried, &target)?;
            self.entry = target;
            return sync_dir(&entries).map_err(cannot_make(&entries));
        }
        Err(RemovalError::PathTaken(entries))
    }

    /// What our lock says while an entry is on its way.
    fn mark(&self) -> String {
        format!("grove moves this worktree ({})\n", self.manifest.environment)
    }

    /// After a crash: the entry that returned already. Our mark tells, or the path that it belongs
    /// to, or its name.
    fn find_entry(&mut self, repo: &Repository) -> Result<(), RemovalError> {
        let failed = |error| RemovalError::io("git's entries cannot be looked at")(error);
        let all = crate::links::entries(&repo.common_dir).map_err(failed)?;
        let marked = |entry: &&PathBuf| {
            read_plain(&entry.join("locked"), SMALL).is_ok_and(|text| text == self.mark().as_bytes())
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
            None => Err(RemovalError::NotInTrash(self.buried_entry())),
        }
    }

    /// The branches, where they are gone.
    pub async fn return_branches(&self, repo: &Repository) -> Result<(), RemovalError> {
        for (name, at) in self.branches_as_they_were() {
            let branch = BranchName::parse(&name).map_err(|error| RemovalError::BadManifest(error.to_string()))?;
            // Traces were kept of the environment's own branch only.
            let traces = Some(self.aside()).filter(|_| name == self.manifest.branch);
            branch::restore(repo, &branch, &at, traces).await?;
        }
        Ok(())
    }

    /// The second rename back. What was compacted is written again first.
    pub async fn return_files(&self, repo: &Repository) -> Result<(), RemovalError> {
        let Manifest { path, files, .. } = &self.manifest;
        if self.files_are_buried() {
            compact::restore(repo, files, &self.aside).await?;
            self.join_again()?;
            self.relink(repo)?;
            let parent = path.parent().unwrap_or(path);
            fs::create_dir_all(parent).map_err(cannot_make(parent))?;
            rename(files, path)?;
            sync_dir(parent).map_err(cannot_make(parent))?;
        }
        self.unlock(&self.entry)
    }

    /// Makes `.git` of the worktree and of its submodules name the entry as it is called now, and where it
    /// is: its own name may be taken meanwhile, and the repository may have been moved.
    fn relink(&self, repo: &Repository) -> Result<(), RemovalError> {
        let name = self.entry.file_name().unwrap_or_default().as_bytes();
        let common = repo.common_dir.file_name().unwrap_or_default().as_bytes();
        let before = [common, b"/worktrees/"].concat();
        let root = Dir::open_ambient_dir(&self.manifest.files, ambient_authority())
            .map_err(cannot_make(&self.manifest.files))?;
        for below in std::iter::once(Path::new("")).chain(self.manifest.submodules.iter().map(PathBuf::as_path)) {
            let file = below.join(".git");
            let failed =
                || RemovalError::io(format!("{} cannot be written", self.manifest.files.join(&file).display()));
            // A link that leads out of the trash cannot be opened beneath it.
            let folder = match root.open_dir(if below.as_os_str().is_empty() { Path::new(".") } else { below }) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(failed())?,
            };
            let text = match read_plain_at(&folder, Path::new(".git"), SMALL) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(failed())?,
            };
            // The first: a submodule may have a name like that.
            let Some(at) = text.windows(before.len()).position(|window| window == before) else { continue };
            let start = at + before.len();
            let end =
                text[start..].iter().position(|byte| matches!(byte, b'/' | b'\n')).map_or(text.len(), |n| start + n);
            // The repository itself may have been moved meanwhile.
            let prefix = match text[..start].strip_prefix(b"gitdir: ").filter(|path| path.starts_with(b"/")) {
                Some(worktrees) if !is_same_folder(&parse::path(worktrees).join(".."), &repo.common_dir) => {
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

    /// After an undo: pins and lists are not needed any more.
    pub async fn forget(&self, repo: &Repository) -> Result<(), RemovalError> {
        pins::unpin(repo, &self.manifest.pins()).await?;
        self.tidy()
    }

    /// Takes what was ours in the trash away; what somebody's worktree was is not ours.
    fn tidy(&self) -> Result<(), RemovalError> {
        if self.entry_is_buried() {
            return Err(RemovalError::PathTaken(self.buried_entry()));
        }
        if self.aside.exists() {
            fs::remove_dir_all(&self.aside)
                .map_err(RemovalError::io(format!("{} cannot be tidied", self.aside.display())))?;
        }
        // Empty parents only.
        for dir in [self.aside.parent(), self.manifest.files.parent()].into_iter().flatten() {
            let _ = fs::remove_dir(dir);
        }
        Ok(())
    }

    /// Deletes for good: files, entry, pins. From the first rename on an undo finds nothing, so that
    /// nobody ever gets half of it back.
    pub async fn destroy(&self, repo: &Repository) -> Result<(), RemovalError> {
        let files = &self.manifest.files;
        let doomed =
            [(files.clone(), files.with_extension("dropped")), (self.buried_entry(), self.aside.join("dropped"))];
        for (from, to) in &doomed {
            if from.symlink_metadata().is_ok() && to.symlink_metadata().is_err() {
                rename(from, to)?;
            }
        }
        for dir in
            doomed.into_iter().map(|(_, to)| to).chain([compact::shed_place(files), compact::unfinished_file(files)])
        {
            let deleted = compact::delete_slowly(&dir).await;
            deleted.map_err(RemovalError::io(format!("{} cannot be deleted", dir.display())))?;
        }
        self.forget(repo).await
    }

    /// Whether somebody dropped it and did not come to the end. Files that are only away, on a disk
    /// that is not mounted, are not dropped.
    pub fn is_being_dropped(&self) -> bool {
        self.aside.join(DROPPING).exists() || !self.aside.exists()
    }

    /// Whether a folder that was to leave early has left.
    pub fn is_shed(&self, folder: &RegenerableFolder) -> bool {
        let at = self.manifest.files.join(&folder.path).symlink_metadata();
        self.files_are_buried() && at.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// The folders that are to leave early and are still here.
    pub fn regenerable_left(&self) -> Vec<RegenerableFolder> {
        self.manifest.regenerable.iter().filter(|folder| !self.is_shed(folder)).cloned().collect()
    }

    /// The whole size of what waits here, in bytes.
    pub fn size(&self) -> u64 {
        fn of(path: &Path) -> u64 {
            let Ok(meta) = path.symlink_metadata() else { return 0 };
            let below =
                || fs::read_dir(path).into_iter().flatten().flatten().map(|entry| of(&entry.path())).sum::<u64>();
            meta.blocks() * 512 + if meta.is_dir() { below() } else { 0 }
        }
        of(&self.manifest.files) + of(&self.aside)
    }

    /// An undo gives way before its first rename: the mark in the buried entry goes.
    pub fn stay(&self) -> Result<(), RemovalError> {
        self.unlock(&self.buried_entry())
    }

    /// Takes the first rename of a removal back, when the second fails.
    pub fn unbury_files(&self) -> Result<(), RemovalError> {
        if self.files_are_buried() { rename(&self.manifest.files, &self.manifest.path) } else { Ok(()) }
    }

    /// Takes our own lock away; one that somebody had set stays.
    fn unlock(&self, entry: &Path) -> Result<(), RemovalError> {
        let failed = || RemovalError::io(format!("{} cannot be unlocked", entry.display()));
        match fs::remove_file(entry.join(UNFINISHED_LOCK)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed()(error)),
            _ => {}
        }
        let lock = entry.join("locked");
        if !read_plain(&lock, SMALL).is_ok_and(|text| text == self.mark().as_bytes()) {
            return Ok(());
        }
        fs::remove_file(lock).map_err(failed())
    }
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn device(path: &Path) -> Result<u64, RemovalError> {
    let meta = path.symlink_metadata();
    Ok(meta.map_err(RemovalError::io(format!("{} cannot be looked at", path.display())))?.dev())
}

fn rename(from: &Path, to: &Path) -> Result<(), RemovalError> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::XDEV | rustix::io::Errno::BUSY) => Err(RemovalError::OtherFileSystem(from.to_owned())),
        Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => Err(RemovalError::PathTaken(to.to_owned())),
        Err(error) => Err(RemovalError::io(format!("{} cannot be moved", from.display()))(error.into())),
    }
}

fn cannot_make(path: &Path) -> impl Fn(io::Error) -> RemovalError {
    let what = format!("{} cannot be written", path.display());
    move |error| RemovalError::io(what.clone())(error)
}
