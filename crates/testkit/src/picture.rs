//! A snapshot of everything visible in a directory: names, kinds, modes, owners, times, bytes, links,
//! extended attributes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Clone, PartialEq, Eq)]
struct SnapshotEntry {
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    bytes: Vec<u8>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A directory as it was at one moment.
#[derive(Clone, PartialEq, Eq)]
pub struct DirectorySnapshot {
    seen: BTreeMap<PathBuf, SnapshotEntry>,
}

impl DirectorySnapshot {
    /// Takes a snapshot of all files, also those that git ignores, hides or keeps for itself.
    pub fn from_directory(root: &Path) -> Self {
        let mut picture = Self { seen: BTreeMap::new() };
        picture.collect_entries(root, Path::new(""), &|_| true);
        picture
    }

    /// Takes a snapshot without the times of directories, and without some files: for git's own
    /// directories, in which files come and go.
    pub fn of_entry(root: &Path, without: &[&str]) -> Self {
        let mut picture = Self::from_directory(root);
        picture.seen.retain(|path, _| !without.iter().any(|name| path == Path::new(name)));
        for seen in picture.seen.values_mut().filter(|seen| seen.mode & 0o170_000 == 0o040_000) {
            seen.modified = (0, 0);
        }
        picture
    }

    /// Takes a snapshot of every file of a repository's git directory, byte for byte, without times and
    /// without objects. It has only the names of reflogs: a reflog that grows records what happened.
    pub fn of_git_dir(root: &Path) -> Self {
        let mut picture = Self { seen: BTreeMap::new() };
        picture.collect_entries(root, Path::new(""), &|path| path != Path::new("objects"));
        picture.seen.retain(|_, seen| seen.mode & 0o170_000 != 0o040_000);
        for (path, seen) in &mut picture.seen {
            seen.modified = (0, 0);
            if path.starts_with("logs") {
                seen.bytes.clear();
            }
        }
        picture
    }

    fn collect_entries(&mut self, root: &Path, below: &Path, is_wanted: &dyn Fn(&Path) -> bool) {
        let path = root.join(below);
        let meta = path.symlink_metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let bytes = if meta.is_symlink() {
            fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
        } else if meta.is_file() {
            fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        } else {
            Vec::new()
        };
        let seen = SnapshotEntry {
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            modified: (meta.mtime(), meta.mtime_nsec()),
            bytes,
            attributes: attributes_of(&path),
        };
        self.seen.insert(below.to_owned(), seen);
        if meta.is_dir() {
            let names = fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").file_name());
            for inner in names.map(|name| below.join(name)).filter(|inner| is_wanted(inner)) {
                self.collect_entries(root, &inner, is_wanted);
            }
        }
    }

    /// Returns the time at which a file was last written.
    pub fn modified_time(&self, name: &str) -> std::time::SystemTime {
        let (seconds, nanos) = self.seen[Path::new(name)].modified;
        std::time::SystemTime::UNIX_EPOCH
            + std::time::Duration::new(seconds.unsigned_abs(), u32::try_from(nanos).expect("nanoseconds"))
    }

    /// Describes every difference in words.
    pub fn describe_differences(&self, now: &DirectorySnapshot) -> Vec<String> {
        let mut found = Vec::new();
        for (path, was) in &self.seen {
            let name = path.display();
            match now.seen.get(path) {
                None => found.push(format!("{name} is gone")),
                Some(is) => {
                    if is.mode != was.mode {
                        found.push(format!("{name}: mode {:o} became {:o}", was.mode, is.mode));
                    }
                    if is.owner != was.owner {
                        found.push(format!("{name}: owner {:?} became {:?}", was.owner, is.owner));
                    }
                    if is.attributes != was.attributes {
                        found.push(format!("{name}: extended attributes differ"));
                    }
                    if is.modified != was.modified {
                        found.push(format!("{name}: time {:?} became {:?}", was.modified, is.modified));
                    }
                    if is.bytes != was.bytes {
                        found.push(format!("{name}: {} bytes became {}", was.bytes.len(), is.bytes.len()));
                    }
                }
            }
        }
        found.extend(
            now.seen
                .keys()
                .filter(|path| !self.seen.contains_key(*path))
                .map(|path| format!("{} is new", path.display())),
        );
        found
    }
}

/// Returns the extended attributes of a file, ACLs included; none if the file system does not support them.
fn attributes_of(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 64 * 1024];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value_of = |name: &[u8]| {
        let mut value = vec![0; 64 * 1024];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).expect("an attribute");
        value.truncate(length);
        (name.to_vec(), value)
    };
    names.map(value_of).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn every_kind_of_difference_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let start = || {
            for name in ["a", "d"] {
                let _ = fs::remove_file(path(name));
            }
            let _ = fs::remove_dir_all(path("empty"));
            fs::write(path("a"), "text").unwrap();
            fs::create_dir(path("empty")).unwrap();
            std::os::unix::fs::symlink("a", path("d")).unwrap();
            DirectorySnapshot::from_directory(dir.path())
        };
        let differs = |change: &dyn Fn()| {
            let before = start();
            assert_eq!(
                before.describe_differences(&DirectorySnapshot::from_directory(dir.path())),
                Vec::<String>::new()
            );
            change();
            !before.describe_differences(&DirectorySnapshot::from_directory(dir.path())).is_empty()
        };
        assert!(differs(&|| fs::write(path("a"), "tex2").unwrap()));
        assert!(differs(&|| fs::set_permissions(path("a"), fs::Permissions::from_mode(0o600)).unwrap()));
        assert!(differs(&|| fs::File::open(path("a"))
            .unwrap()
            .set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap()));
        assert!(differs(&|| fs::remove_dir(path("empty")).unwrap()));
        assert!(differs(&|| fs::write(path("empty/new"), "").unwrap()));
        assert!(differs(&|| {
            fs::remove_file(path("d")).unwrap();
            std::os::unix::fs::symlink("b", path("d")).unwrap();
        }));
    }
}
