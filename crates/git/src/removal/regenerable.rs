//! Finds folders that tools make again, such as `target/` and `node_modules/`.
//!
//! A name proves nothing: a person may have made a `target` by hand. So a folder of a known name counts only
//! with its tool's marker in it or beside it. The marker may be a tracked file, which is only in git once the
//! trash is compacted; so the folders are determined before a worktree is moved there, and kept in the
//! manifest.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::nested::WorktreeWalk;
use crate::durable::read_plain;
use crate::settled::FileTime;
use crate::{GitError, GitLocation, Repository, parse};

/// The first bytes of every `CACHEDIR.TAG` (<https://bford.info/cachedir/>).
const CACHEDIR_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// A longer `CACHEDIR.TAG` does not count.
const MAX_CACHEDIR_TAG_BYTES: u64 = 64 * 1024;

/// Names of folders that tools make again, as they are configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegenerableNames {
    pub names: Vec<String>,
    /// The names come from the person's own settings, not from the repository's file: a name
    /// without a known marker counts by itself. Otherwise it needs a `CACHEDIR.TAG`.
    pub chosen_by_person: bool,
}

/// A folder of a worktree that its tool makes again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegenerableFolder {
    /// Relative to the worktree.
    pub path: PathBuf,
    pub bytes: u64,
    /// The time of the last write in it.
    newest: FileTime,
    /// It holds a `CACHEDIR.TAG`.
    has_cachedir_tag: bool,
}

impl RegenerableNames {
    fn has_name_of(&self, folder: &Path) -> bool {
        let names = self.names.iter().map(|name| name.trim_matches('/')).filter(|name| !name.is_empty());
        names.into_iter().any(|name| folder.ends_with(name))
    }

    /// Tells whether a folder that a check found counts.
    pub fn includes_folder(&self, folder: &RegenerableFolder) -> bool {
        let proven = is_known_name(&folder.path) || folder.has_cachedir_tag || self.chosen_by_person;
        proven && self.has_name_of(&folder.path)
    }
}

/// The markers that the files of a folder give: of the tools that work in it, and of the one that
/// made it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FolderMarkers {
    cachedir_tag: bool,
    pyvenv_cfg: bool,
    package_json: bool,
    tox_config: bool,
    gradle_build: bool,
    compiled_python: bool,
    /// It holds other entries than compiled Python.
    other_entries: bool,
}

impl FolderMarkers {
    /// Takes one entry of the folder into account.
    pub fn add_entry(&mut self, name: &OsStr, is_file: bool) {
        if is_file && name.as_bytes().ends_with(b".pyc") {
            self.compiled_python = true;
            return;
        }
        self.other_entries = true;
        match name.to_str().filter(|_| is_file) {
            Some("CACHEDIR.TAG") => self.cachedir_tag = true,
            Some("pyvenv.cfg") => self.pyvenv_cfg = true,
            Some("package.json") => self.package_json = true,
            Some("tox.ini" | "tox.toml" | "pyproject.toml" | "setup.cfg") => self.tox_config = true,
            Some("build.gradle" | "build.gradle.kts" | "settings.gradle" | "settings.gradle.kts") => {
                self.gradle_build = true;
            }
            _ => {}
        }
    }

    /// Drops a `CACHEDIR.TAG` without the right signature.
    pub fn check_signature(&mut self, folder: &Path) {
        if self.cachedir_tag {
            let tag = read_plain(&folder.join("CACHEDIR.TAG"), MAX_CACHEDIR_TAG_BYTES);
            self.cachedir_tag = tag.is_ok_and(|text| text.starts_with(CACHEDIR_SIGNATURE));
        }
    }

    /// Tells whether a tool made the folder with this name and these entries; `None` for an unknown
    /// name.
    fn check_tool_made(self, name: &OsStr, beside: FolderMarkers) -> Option<bool> {
        match name.to_str()? {
            "target" | ".pytest_cache" | ".mypy_cache" => Some(self.cachedir_tag),
            "node_modules" => Some(beside.package_json),
            ".venv" => Some(self.pyvenv_cfg),
            "__pycache__" => Some(self.compiled_python && !self.other_entries),
            ".tox" => Some(self.cachedir_tag || beside.tox_config),
            ".gradle" => Some(beside.gradle_build),
            _ => None,
        }
    }

    /// Tells whether the folder at `path` may be one that its tool makes again.
    pub fn may_be_regenerable(self, path: &Path, beside: FolderMarkers, names: &RegenerableNames) -> bool {
        let by_name = || self.cachedir_tag || (names.chosen_by_person && names.has_name_of(path));
        path.file_name().is_some_and(|name| self.check_tool_made(name, beside).unwrap_or_else(by_name))
    }
}

fn is_known_name(folder: &Path) -> bool {
    let (inside, beside) = (FolderMarkers::default(), FolderMarkers::default());
    folder.file_name().is_some_and(|name| inside.check_tool_made(name, beside).is_some())
}

/// The size of a folder, and the time of the last write in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FolderExtent {
    bytes: u64,
    newest: FileTime,
}

impl FolderExtent {
    /// Takes a file or folder into account. A file's change time (ctime) is no sign of a write, since package
    /// managers share files by hard links; a folder's is one, and no program can set it. Times in the future
    /// would hide later ones, so they do not count.
    pub fn add_metadata(&mut self, meta: &Metadata, now: FileTime) {
        self.bytes += meta.blocks() * 512;
        let written = if meta.is_dir() { (meta.ctime(), meta.ctime_nsec()) } else { (meta.mtime(), meta.mtime_nsec()) };
        if written <= now {
            self.newest = self.newest.max(written);
        }
    }

    pub fn add_all(&mut self, other: FolderExtent) {
        self.bytes += other.bytes;
        self.newest = self.newest.max(other.newest);
    }

    fn measure_folder(folder: &Path) -> io::Result<Self> {
        let now = this_instant();
        let mut extent = Self::default();
        let mut open = vec![folder.to_owned()];
        while let Some(dir) = open.pop() {
            extent.add_metadata(&dir.symlink_metadata()?, now);
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                let meta = entry.metadata()?;
                if meta.is_dir() { open.push(entry.path()) } else { extent.add_metadata(&meta, now) }
            }
        }
        Ok(extent)
    }
}

pub(super) fn this_instant() -> FileTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos().into())
}

impl RegenerableFolder {
    pub(super) fn new(path: PathBuf, markers: FolderMarkers) -> Self {
        Self { path, bytes: 0, newest: (0, 0), has_cachedir_tag: markers.cachedir_tag }
    }

    pub(super) fn add_extent(&mut self, extent: FolderExtent) {
        let mut whole = FolderExtent { bytes: self.bytes, newest: self.newest };
        whole.add_all(extent);
        (self.bytes, self.newest) = (whole.bytes, whole.newest);
    }

    /// Tells whether something was written in it since it was found; `at` is its current path.
    pub(super) fn is_written_since(&self, at: &Path) -> io::Result<bool> {
        Ok(FolderExtent::measure_folder(at)?.newest > self.newest)
    }
}

/// Returns the folders of a walk that git ignores and that hold nothing tracked and no repository.
pub(super) async fn ignored_folders(
    repo: &Repository,
    place: GitLocation<'_>,
    walk: &WorktreeWalk,
) -> Result<Vec<RegenerableFolder>, GitError> {
    let is_apart = |folder: &&RegenerableFolder| {
        let apart = |other: &PathBuf| !other.starts_with(&folder.path) && !folder.path.starts_with(other);
        folder.path.to_str().is_some() && walk.repositories.iter().all(apart)
    };
    let candidates: Vec<&RegenerableFolder> = walk.regenerable.iter().filter(is_apart).collect();
    // A folder that could not be read may hold anything.
    if candidates.is_empty() || walk.unreadable.is_some() {
        return Ok(Vec::new());
    }
    let list = candidates.iter().flat_map(|folder| [folder.path.as_os_str().as_bytes(), b"/\0"].concat());
    let ignored =
        repo.git().new_command(place, "check-ignore").args(["-z", "--stdin"]).with_stdin(list.collect::<Vec<u8>>());
    let tracked = repo.git().new_command(place, "ls-files").arg("-z");
    let (ignored, tracked) =
        tokio::join!(ignored.inspecting_worktree().run_for(&[0, 1]), tracked.inspecting_index().run());
    let paths = |bytes: &[u8]| -> Vec<PathBuf> {
        bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(parse::path_from_bytes).collect()
    };
    let (ignored, mut tracked) = (paths(&ignored?.stdout), paths(&tracked?.stdout));
    tracked.sort_unstable();
    let holds_tracked = |folder: &Path| {
        let next = tracked.partition_point(|path| path.as_path() < folder);
        tracked.get(next).is_some_and(|path| path.starts_with(folder))
    };
    let counts = |folder: &&RegenerableFolder| ignored.contains(&folder.path) && !holds_tracked(&folder.path);
    Ok(candidates.into_iter().filter(counts).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_noticed_and_a_hard_link_elsewhere_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("node_modules");
        fs::create_dir_all(folder.join("a")).unwrap();
        fs::write(folder.join("a/index.js"), "x").unwrap();
        // A time in the future hides nothing.
        let future = SystemTime::now() + std::time::Duration::from_secs(1_000_000);
        fs::write(folder.join("a/future"), "x").unwrap();
        fs::File::open(folder.join("a/future")).unwrap().set_modified(future).unwrap();
        let mut found = RegenerableFolder::new("node_modules".into(), FolderMarkers::default());
        found.add_extent(FolderExtent::measure_folder(&folder).unwrap());
        assert!(found.bytes >= 4096);
        fs::hard_link(folder.join("a/index.js"), dir.path().join("linked")).unwrap();
        assert!(!found.is_written_since(&folder).unwrap());
        // Repeat until the clock of the file system has advanced.
        for round in 0.. {
            fs::write(folder.join("a/future"), format!("{round}")).unwrap();
            if found.is_written_since(&folder).unwrap() {
                break;
            }
            assert!(round < 100_000, "a write in place is noticed");
        }
        let mut found = RegenerableFolder::new("node_modules".into(), FolderMarkers::default());
        found.add_extent(FolderExtent::measure_folder(&folder).unwrap());
        for round in 0.. {
            let new = folder.join(format!("new{round}"));
            fs::write(&new, "x").unwrap();
            fs::File::open(&new).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
            if found.is_written_since(&folder).unwrap() {
                break;
            }
            assert!(round < 10_000, "a new file with an old time is noticed");
        }
        assert!(found.is_written_since(&dir.path().join("missing")).is_err());
    }
}
