//! Compares the canonical checkout with an earlier snapshot: HEAD, index, config, hooks and every file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Mode, modification time and bytes (the target, for a link).
type CheckoutEntry = (u32, i64, i64, Vec<u8>);

/// A snapshot of the files that creation must leave byte for byte as they were.
#[derive(Debug, PartialEq, Eq)]
pub struct CheckoutSnapshot {
    root: PathBuf,
    entries: BTreeMap<PathBuf, CheckoutEntry>,
    config: String,
    exclude: String,
}

/// The line that creation may add to `info/exclude`.
const EXCLUDE_LINE: &str = ".grove/worktrees/";

impl CheckoutSnapshot {
    pub fn from_checkout(root: &Path) -> Self {
        let git_dir = if root.join(".git").is_dir() { root.join(".git") } else { root.to_owned() };
        let mut entries = BTreeMap::new();
        if git_dir != root {
            collect_entries(root, root, &mut entries);
        }
        for name in ["HEAD", "index", "hooks"] {
            collect_entries(root, &git_dir.join(name), &mut entries);
        }
        let text = |name: &str| fs::read_to_string(git_dir.join(name)).unwrap_or_default();
        Self { root: root.to_owned(), entries, config: text("config"), exclude: text("info/exclude") }
    }

    /// Panics unless everything is as it was.
    pub fn assert_untouched(&self) {
        self.assert_matches_now(None);
    }

    /// Panics unless everything is as it was, but the config may have gained the upstream of `branch`.
    pub fn assert_only_upstream_added(&self, branch: &str) {
        self.assert_matches_now(Some(branch));
    }

    fn assert_matches_now(&self, upstream_of: Option<&str>) {
        let now = Self::from_checkout(&self.root);
        for (path, entry) in &self.entries {
            let (mode, seconds, nanos, _) = entry;
            match now.entries.get(path) {
                None => panic!("{} is gone", path.display()),
                Some(found) if found != entry => panic!(
                    "{} changed: mode {mode:o} to {:o}, time {seconds}.{nanos} to {}.{}, bytes {}",
                    path.display(),
                    found.0,
                    found.1,
                    found.2,
                    if found.3 == entry.3 { "the same" } else { "different" }
                ),
                Some(_) => {}
            }
        }
        if let Some(path) = now.entries.keys().find(|path| !self.entries.contains_key(*path)) {
            panic!("{} is new in the canonical checkout", path.display());
        }
        let plain = |config: &str| match upstream_of {
            Some(branch) => without_section(config, &format!("[branch \"{branch}\"]")),
            None => config.to_owned(),
        };
        assert_eq!(plain(&now.config), plain(&self.config), "the config changed");
        let exclude: String =
            now.exclude.lines().filter(|line| *line != EXCLUDE_LINE).map(|line| format!("{line}\n")).collect();
        let before: String =
            self.exclude.lines().filter(|line| *line != EXCLUDE_LINE).map(|line| format!("{line}\n")).collect();
        assert_eq!(exclude, before, "info/exclude changed by more than our line");
    }
}

fn without_section(config: &str, header: &str) -> String {
    let mut inside = false;
    let keep = config.lines().filter(|line| {
        if line.starts_with('[') {
            inside = *line == header;
        }
        !inside
    });
    keep.map(|line| format!("{line}\n")).collect()
}

fn collect_entries(root: &Path, path: &Path, into: &mut BTreeMap<PathBuf, CheckoutEntry>) {
    let Ok(meta) = path.symlink_metadata() else { return };
    if meta.is_dir() {
        for entry in fs::read_dir(path).expect("read a directory") {
            let path = entry.expect("a directory entry").path();
            let ours = path == root.join(".grove")
                && fs::read_dir(&path).is_ok_and(|mut d| d.all(|e| e.is_ok_and(|e| e.file_name() == "worktrees")));
            if path == root.join(".git") || path == root.join(".grove/worktrees") || ours {
                continue;
            }
            collect_entries(root, &path, into);
        }
        return;
    }
    let bytes = if meta.is_symlink() {
        fs::read_link(path).expect("a link").into_os_string().into_encoded_bytes()
    } else {
        fs::read(path).expect("a file")
    };
    into.insert(path.to_owned(), (meta.mode(), meta.mtime(), meta.mtime_nsec(), bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestRepo;

    fn detects_change(change: impl FnOnce(&TestRepo)) -> bool {
        let repo = TestRepo::new();
        let before = repo.snapshot_checkout();
        change(&repo);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| before.assert_untouched())).is_err()
    }

    #[test]
    fn every_kind_of_touch_is_noticed() {
        assert!(!detects_change(|_| {}));
        assert!(detects_change(|repo| repo.write_file("README.md", "other\n")));
        assert!(detects_change(|repo| repo.write_file("new", "")));
        assert!(detects_change(|repo| fs::remove_file(repo.path().join("README.md")).unwrap()));
        assert!(detects_change(|repo| drop(repo.git(&["checkout", "-q", "-b", "x"]))));
        assert!(detects_change(|repo| drop(repo.git(&["config", "a.b", "c"]))));
        assert!(detects_change(|repo| drop(repo.git(&["rm", "-q", "--cached", "README.md"]))));
        assert!(detects_change(|repo| fs::write(repo.path().join(".git/hooks/post-checkout"), "x").unwrap()));
        assert!(detects_change(|repo| fs::write(repo.path().join(".git/info/exclude"), "x\n").unwrap()));
    }

    #[test]
    fn only_the_upstream_may_be_added() {
        let repo = TestRepo::new();
        let before = repo.snapshot_checkout();
        repo.git(&["config", "branch.x.remote", "origin"]);
        before.assert_only_upstream_added("x");
        assert!(std::panic::catch_unwind(|| before.assert_untouched()).is_err());
    }
}
