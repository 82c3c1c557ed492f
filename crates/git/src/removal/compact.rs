//! Makes the trash smaller: folders that their tools make again are deleted after a while; tracked files that
//! a pinned object holds byte for byte are deleted after a day, and an undo writes them again. A file with
//! properties that an undo could not write again (owners, access lists, see [`FileTraits`]) stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt as _, PermissionsExt as _};

use super::traits::FileTraits;
use super::{RemovalError, TrashedWorktree};
use crate::durable::{open_plain_at, sync_dir, write_synced};
use crate::{GitError, Repository, parse};

/// The list of the files that were taken out, beside the entry.
const COMPACTED_LIST_FILE: &str = "compacted";
/// The number of bytes that are requested from git at once when files are written again.
const RESTORE_CHUNK_BYTES: u64 = 32 * 1024 * 1024;

/// Returns the folder where regenerable folders wait for their deletion.
pub(super) fn shed_place(files: &Path) -> PathBuf {
    files.with_extension("shed")
}

/// Returns the temporary path of a file that is being written again.
pub(super) fn unfinished_file(files: &Path) -> PathBuf {
    files.with_extension("new")
}

impl TrashedWorktree {
    /// Renames the folders that their tools make again out of the way, except for those that something was
    /// written into, and returns their new location: an undo need not wait until they are deleted.
    pub async fn move_out_regenerable(&self) -> Result<Option<PathBuf>, RemovalError> {
        let trashed = self.clone();
        let shed = tokio::task::spawn_blocking(move || trashed.shed_folders()).await;
        shed.map_err(|error| RemovalError::io_error("the trash could not be looked at")(io::Error::other(error)))??;
        Ok(self.unfinished_deletion())
    }

    /// Returns the location of folders that left early, if their deletion is not finished.
    pub fn unfinished_deletion(&self) -> Option<PathBuf> {
        Some(shed_place(&self.manifest.files)).filter(|place| place.exists())
    }

    fn shed_folders(&self) -> Result<(), RemovalError> {
        let files = &self.manifest.files;
        let place = shed_place(files);
        let failed = |path: &Path| RemovalError::io_error(format!("{} cannot be moved", path.display()));
        let mut buried = TrashedFiles::open_root(files)?;
        for folder in &self.manifest.regenerable {
            if !buried.is_real_folder(&folder.path) {
                continue;
            }
            let at = files.join(&folder.path);
            match folder.is_written_since(&at) {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!("{} stays: something was written there since it was removed", at.display());
                    continue;
                }
                Err(error) => {
                    tracing::info!("{} stays: it cannot be read ({error})", at.display());
                    continue;
                }
            }
            fs::create_dir_all(&place).map_err(failed(&place))?;
            let target = Dir::open_ambient_dir(&place, ambient_authority()).map_err(failed(&place))?;
            // The parent folder must not look changed.
            let above = buried.open_folder(folder.path.parent().unwrap_or(Path::new("")));
            let above = above.and_then(|dir| Ok((dir.metadata()?.modified()?, dir)));
            let name = grove_model::Nonce::new().to_string();
            buried.root.rename(&folder.path, &target, name).map_err(failed(&at))?;
            if let Ok((time, dir)) = above {
                let _ = dir.set_modified(time);
            }
        }
        Ok(())
    }

    /// Deletes the tracked files that git can restore byte for byte. Returns their number.
    pub async fn compact_files(&self, repo: &Repository) -> Result<usize, RemovalError> {
        let files = &self.manifest.files;
        let list = self.records_dir().join(COMPACTED_LIST_FILE);
        if list.exists() || !self.files_are_in_trash() || !self.entry_is_in_trash() {
            return Ok(0);
        }
        let held = self.held_by_pins(repo).await?;
        let index = self.entry_in_trash().join("index");
        let tracked = repo
            .new_command("ls-files")
            .with_env("GIT_INDEX_FILE", &index)
            .args(["-z", "--stage"])
            .with_long_timeout()
            .run()
            .await?;
        let mut candidates = Vec::new();
        let mut buried = TrashedFiles::open_root(files)?;
        let new_file = FileTraits::of_new_file(&unfinished_file(files))
            .map_err(RemovalError::io_error(format!("{} cannot be written", unfinished_file(files).display())))?;
        for line in tracked.stdout.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let Some((id, path)) = plain_file(line) else { continue };
            let single_line = !path.as_os_str().as_bytes().contains(&b'\n');
            if held.contains(id) && single_line && buried.has_traits(&path, &new_file) {
                candidates.push((id.to_owned(), path));
            }
        }
        let names: Vec<u8> =
            candidates.iter().flat_map(|(_, path)| [files.join(path).as_os_str().as_bytes(), b"\n"].concat()).collect();
        let hashed = repo
            .new_command("hash-object")
            .args(["--no-filters", "--stdin-paths"])
            .with_stdin(names)
            .with_long_timeout()
            .run_to_text()
            .await?;
        let same = candidates
            .into_iter()
            .zip(hashed.lines())
            .filter(|((id, _), is)| id == is)
            .map(|((id, path), _)| (id, path));
        let (mut lines, mut gone, mut folders) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (id, path) in same {
            let failed = || RemovalError::io_error(format!("{} cannot be looked at", path.display()));
            let meta = buried.root.symlink_metadata(&path).map_err(failed())?;
            lines.push(line_of(&id, &meta, &path));
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            if !folders.contains_key(&folder) {
                let meta = buried.open_folder(&folder).and_then(|dir| dir.metadata()).map_err(failed())?;
                folders.insert(folder.clone(), line_of("-", &Metadata::from_just_metadata(meta), &folder));
            }
            gone.push(path);
        }
        lines.extend(folders.into_values());
        let failed = |path: &Path| RemovalError::io_error(format!("{} cannot be written", path.display()));
        // A file is listed before it is deleted; and the list is replaced as a whole, because an undo could
        // not read half a list.
        let unfinished = list.with_extension("new");
        write_synced(&unfinished, lines.concat()).map_err(failed(&unfinished))?;
        fs::rename(&unfinished, &list).map_err(failed(&list))?;
        sync_dir(self.records_dir()).map_err(failed(self.records_dir()))?;
        for path in &gone {
            buried.root.remove_file(path).map_err(failed(path))?;
        }
        Ok(gone.len())
    }

    /// Returns the objects of the commit that was checked out and of everything that was pinned
    /// with it.
    async fn held_by_pins(&self, repo: &Repository) -> Result<BTreeSet<String>, GitError> {
        let pin = format!("refs/grove/{}/pin", self.manifest.pins_ref_path());
        let head = self.manifest.head.as_ref().map(|head| head.as_str());
        if repo.commit_of(&pin).await?.is_none() {
            return Ok(BTreeSet::new());
        }
        let listed =
            repo.new_command("rev-list").args(["--objects", "--no-object-names", "--no-walk", &pin]).args(head);
        Ok(listed.with_long_timeout().run_to_text().await?.lines().map(str::to_owned).collect())
    }

    /// Returns when a file was last written in the trash; a process that still has it open may do
    /// so.
    pub fn last_written(&self) -> io::Result<SystemTime> {
        let mut newest = SystemTime::UNIX_EPOCH;
        let mut open = vec![self.manifest.files.clone()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir)? {
                let entry = entry?;
                let meta = entry.path().symlink_metadata()?;
                if meta.is_dir() {
                    open.push(entry.path());
                } else {
                    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(meta.ctime().max(0).unsigned_abs());
                    newest = newest.max(changed);
                }
            }
        }
        Ok(newest)
    }
}

/// The files of a worktree in the trash. Everything is opened, deleted and written beneath their
/// folder, wherever a path or a link in it leads.
struct TrashedFiles {
    root: Dir,
    /// Folders, and whether their whole path is free of links.
    real_folders: BTreeMap<PathBuf, bool>,
}

impl TrashedFiles {
    fn open_root(files: &Path) -> Result<Self, RemovalError> {
        let root = Dir::open_ambient_dir(files, ambient_authority())
            .map_err(RemovalError::io_error(format!("{} cannot be opened", files.display())))?;
        Ok(Self { root, real_folders: BTreeMap::from([(PathBuf::new(), true)]) })
    }

    /// Opens a folder; the empty path is the top.
    fn open_folder(&self, folder: &Path) -> io::Result<File> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        Ok(self.root.open(folder)?.into_std())
    }

    /// Tells whether a plain file without other links has these traits. A file that cannot be opened does
    /// not.
    fn has_traits(&mut self, file: &Path, traits: &FileTraits) -> bool {
        if !self.is_reached_without_links(file) {
            return false;
        }
        let Ok(opened) = open_plain_at(&self.root, file) else { return false };
        let is_plain = opened.metadata().is_ok_and(|meta| meta.is_file() && meta.nlink() == 1);
        is_plain && FileTraits::read_file_traits(&opened).is_ok_and(|own| own == *traits)
    }

    fn is_reached_without_links(&mut self, file: &Path) -> bool {
        file.parent().is_some_and(|folder| self.is_real_folder(folder))
    }

    fn is_real_folder(&mut self, folder: &Path) -> bool {
        if let Some(known) = self.real_folders.get(folder) {
            return *known;
        }
        let here = self.root.symlink_metadata(folder).is_ok_and(|meta| meta.is_dir());
        let real = here && folder.parent().is_some_and(|above| self.is_real_folder(above));
        self.real_folders.insert(folder.to_owned(), real);
        real
    }
}

/// Parses the id and path of a plain file that is not in conflict from `<mode> <id>
/// <stage>\t<path>`.
fn plain_file(line: &[u8]) -> Option<(&str, PathBuf)> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let header = std::str::from_utf8(&line[..tab]).ok()?;
    let mut fields = header.split(' ');
    let (mode, id, stage) = (fields.next()?, fields.next()?, fields.next()?);
    let path = parse::tracked_path(&line[tab + 1..]).ok()?;
    (mode.starts_with("100") && stage == "0").then_some((id, path))
}

/// Formats `<id> <mode> <seconds> <nanoseconds> <size>\t<path>\0`.
fn line_of(id: &str, meta: &Metadata, path: &Path) -> Vec<u8> {
    let header = format!("{id} {:o} {} {} {}\t", meta.mode() & 0o7777, meta.mtime(), meta.mtime_nsec(), meta.len());
    [header.as_bytes(), path.as_os_str().as_bytes(), b"\0"].concat()
}

/// One line of the list.
struct CompactedFile {
    id: String,
    mode: u32,
    modified: SystemTime,
    size: u64,
    path: PathBuf,
}

fn read_line(line: &[u8]) -> Option<CompactedFile> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let fields: Vec<&str> = std::str::from_utf8(&line[..tab]).ok()?.split(' ').collect();
    let [id, mode, seconds, nanos, size] = fields[..] else { return None };
    let (seconds, nanos): (i64, u32) = (seconds.parse().ok()?, nanos.parse().ok()?);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let whole = if seconds < 0 { SystemTime::UNIX_EPOCH - whole } else { SystemTime::UNIX_EPOCH + whole };
    Some(CompactedFile {
        id: id.to_owned(),
        mode: u32::from_str_radix(mode, 8).ok()?,
        modified: whole + Duration::from_nanos(nanos.into()),
        size: size.parse().ok()?,
        // The line of the top folder has no path.
        path: if line.len() == tab + 1 { PathBuf::new() } else { parse::tracked_path(&line[tab + 1..]).ok()? },
    })
}

/// Writes the files that were taken out again, with their mode and time.
pub(super) async fn restore_compacted(repo: &Repository, files: &Path, aside: &Path) -> Result<(), RemovalError> {
    let list = match fs::read(aside.join(COMPACTED_LIST_FILE)) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(RemovalError::io_error("the trash's list cannot be read")(error)),
    };
    let lines = list.split(|byte| *byte == 0).filter(|line| !line.is_empty()).map(read_line);
    let all =
        lines.collect::<Option<Vec<_>>>().ok_or_else(|| RemovalError::BadManifest(COMPACTED_LIST_FILE.to_owned()))?;
    let (folders, wanted): (Vec<_>, Vec<_>) = all.into_iter().partition(|line| line.id == "-");
    let mut buried = TrashedFiles::open_root(files)?;
    let mut missing = Vec::new();
    for line in wanted {
        if !buried.is_reached_without_links(&line.path) {
            return Err(RemovalError::BadManifest(format!("{} is not where it was", line.path.display())));
        }
        match buried.root.symlink_metadata(&line.path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(line),
            Err(error) => {
                return Err(RemovalError::io_error(format!("{} cannot be looked at", line.path.display()))(error));
            }
        }
    }
    let mut rest = &missing[..];
    while let Some(first) = rest.first() {
        let mut size = first.size;
        let fits = |line: &&CompactedFile| {
            size = size.saturating_add(line.size);
            size <= RESTORE_CHUNK_BYTES
        };
        let count = 1 + rest[1..].iter().take_while(fits).count();
        write_again(repo, files, &buried, &rest[..count]).await?;
        rest = &rest[count..];
    }
    for folder in folders {
        let set = buried.open_folder(&folder.path).and_then(|dir| dir.set_modified(folder.modified));
        set.map_err(RemovalError::io_error(format!("{} cannot be written", files.join(&folder.path).display())))?;
    }
    Ok(())
}

async fn write_again(
    repo: &Repository,
    files: &Path,
    buried: &TrashedFiles,
    lines: &[CompactedFile],
) -> Result<(), RemovalError> {
    let ids: String = lines.iter().map(|line| format!("{}\n", line.id)).collect();
    let output = repo.new_command("cat-file").arg("--batch").with_stdin(ids).with_long_timeout().run().await?;
    // Written beside the worktree first: a file at its final path is whole, and what a crash leaves is not
    // among the files of the worktree.
    let temporary = unfinished_file(files);
    let (above, name) = (files.parent().unwrap_or(files), temporary.file_name().unwrap_or_default());
    let above = Dir::open_ambient_dir(above, ambient_authority())
        .map_err(RemovalError::io_error(format!("{} cannot be opened", above.display())))?;
    let mut rest = &output.stdout[..];
    for line in lines {
        let bytes = match crate::repository::next_object(&mut rest)? {
            Some(("blob", bytes)) => bytes,
            _ => return Err(GitError::unreadable_output("cat-file", format!("{} is not there", line.id)).into()),
        };
        let write = || {
            ignore_not_found(fs::remove_file(&temporary))?;
            write_synced(&temporary, bytes)?;
            fs::set_permissions(&temporary, fs::Permissions::from_mode(line.mode))?;
            File::options()
                .write(true)
                .open(&temporary)
                .or_else(|_| File::open(&temporary))?
                .set_modified(line.modified)?;
            above.rename(name, &buried.root, &line.path)
        };
        write().map_err(RemovalError::io_error(format!("{} cannot be written", files.join(&line.path).display())))?;
    }
    Ok(())
}

/// The number of deletions before a pause: a bulk delete slows every process on the same disk.
const DELETION_BATCH_SIZE: usize = 64;
const DELETION_BATCH_INTERVAL: Duration = Duration::from_millis(4);

/// Deletes a directory with everything in it, with pauses. Never follows a link out of it.
pub async fn delete_slowly(path: &Path) -> io::Result<()> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let root = match Dir::open_ambient_dir(parent, ambient_authority()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let mut deletion = FolderDeletion { root: &root, waiting: vec![PathBuf::from(name)], deleted: 0 };
        while let Some(name) = deletion.waiting.pop() {
            deletion.delete_entry(&root, &name, 0)?;
        }
        Ok(())
    })
    .await
    .map_err(io::Error::other)?
}

struct FolderDeletion<'a> {
    root: &'a Dir,
    /// Names below the root that are still to be deleted.
    waiting: Vec<PathBuf>,
    deleted: usize,
}

/// Each level keeps a directory open; deeper folders are moved up first.
const MAX_DELETION_DEPTH: usize = 64;

impl FolderDeletion<'_> {
    fn delete_entry(&mut self, parent: &Dir, name: &Path, depth: usize) -> io::Result<()> {
        self.deleted += 1;
        if self.deleted.is_multiple_of(DELETION_BATCH_SIZE) {
            std::thread::sleep(DELETION_BATCH_INTERVAL);
        }
        let meta = match parent.symlink_metadata(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        if !meta.is_dir() {
            return ignore_not_found(parent.remove_file(name));
        }
        // A folder that its owner made read-only can still be changed by its owner.
        if meta.permissions().mode() & 0o700 != 0o700 {
            parent.set_permissions(name, cap_std::fs::Permissions::from_mode(0o700))?;
        }
        if depth >= MAX_DELETION_DEPTH {
            let up = PathBuf::from(format!(".grove-{}", grove_model::Nonce::new()));
            parent.rename(name, self.root, &up)?;
            self.waiting.push(up);
            return Ok(());
        }
        let dir = parent.open_dir(name)?;
        for entry in dir.entries()? {
            self.delete_entry(&dir, Path::new(&entry?.file_name()), depth + 1)?;
        }
        ignore_not_found(parent.remove_dir(name))
    }
}

fn ignore_not_found(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
