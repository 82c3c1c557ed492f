//! Everything that can be seen of a directory: names, kinds, modes, owners, times, bytes, links,
//! extended attributes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Clone, PartialEq, Eq)]
struct Seen {
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    bytes: Vec<u8>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A directory as it was at one moment.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    seen: BTreeMap<PathBuf, Seen>,
}

impl Picture {
    /// All of it, also what git ignores, hides or keeps for itself.
    pub fn of(root: &Path) -> Self {
        let mut picture = Self { seen: BTreeMap::new() };
        picture.collect(root, Path::new(""));
        picture
    }

    /// Without the times of directories, and without some files: for git's own directories, in
    /// which files come and go.
    pub fn of_entry(root: &Path, without: &[&str]) -> Self {
        let mut picture = Self::of(root);
        picture.seen.retain(|path, _| !without.iter().any(|name| path == Path::new(name)));
        for seen in picture.seen.values_mut().filter(|seen| seen.mode & 0o170_000 == 0o040_000) {
            seen.modified = (0, 0);
        }
        picture
    }

    /// Every file of a repository's git directory, byte for byte, without times and without objects. Of
    /// reflogs only the names: one that goes on says what happened.
    pub fn of_git_dir(root: &Path) -> Self {
        let mut picture = Self::of(root);
        picture.seen.retain(|path, seen| !path.starts_with("objects") && seen.mode & 0o170_000 != 0o040_000);
        for (path, seen) in &mut picture.seen {
            seen.modified = (0, 0);
            if path.starts_with("logs") {
                seen.bytes.clear();
            }
        }
        picture
    }

    fn collect(&mut self, root: &Path, below: &Path) {
        let path = root.join(below);
        let meta = path.symlink_metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let bytes = if meta.is_symlink() {
            fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
        } else if meta.is_file() {
            fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        } else {
            Vec::new()
        };
        let seen = Seen {
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            modified: (meta.mtime(), meta.mtime_nsec()),
            bytes,
            attributes: attributes_of(&path),
        };
        self.seen.insert(below.to_owned(), seen);
        if meta.is_dir() {
            for entry in fs::read_dir(&path).expect("a directory") {
                self.collect(root, &below.join(entry.expect("an entry").file_name()));
            }
        }
    }

    /// When a file of it was last written.
    pub fn modified(&self, name: &str) -> std::time::SystemTime {
        let (seconds, nanos) = self.seen[Path::new(name)].modified;
        std::time::SystemTime::UNIX_EPOCH
            + std::time::Duration::new(seconds.unsigned_abs(), u32::try_from(nanos).expect("nanoseconds"))
    }

    /// What differs, in words.
    pub fn differences(&self, now: &Picture) -> Vec<String> {
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

/// The extended attributes of a file, ACLs included; none where the file system has none.
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
            Picture::of(dir.path())
        };
        let differs = |change: &dyn Fn()| {
            let before = start();
            assert_eq!(before.differences(&Picture::of(dir.path())), Vec::<String>::new());
            change();
            !before.differences(&Picture::of(dir.path())).is_empty()
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
