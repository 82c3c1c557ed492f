//! Files that nobody writes by mistake.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Takes the right to write from everything below a folder. It stops whoever keeps to permissions,
/// which the superuser does not.
pub(super) fn close(root: &Path) -> io::Result<()> {
    change(root, |mode, _| mode & !0o222)
}

/// Gives it back to the owner.
pub(super) fn open(root: &Path) -> io::Result<()> {
    change(root, |mode, folder| mode | if folder { 0o700 } else { 0o200 })
}

/// Links are not followed.
fn change(root: &Path, new: impl Fn(u32, bool) -> u32) -> io::Result<()> {
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let meta = path.symlink_metadata()?;
        if meta.is_symlink() {
            continue;
        }
        let mode = new(meta.permissions().mode(), meta.is_dir());
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        if meta.is_dir() {
            for entry in fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_closed_and_opened_again_but_what_a_link_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "").unwrap();
        fs::write(root.join("program"), "").unwrap();
        fs::set_permissions(root.join("program"), Permissions::from_mode(0o755)).unwrap();
        fs::write(&outside, "").unwrap();
        std::os::unix::fs::symlink(&outside, root.join("a/link")).unwrap();
        let writable = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o222 != 0;
        close(&root).unwrap();
        for path in ["", "a", "a/b", "a/b/file", "program"] {
            assert!(!writable(&root.join(path)), "{path}");
        }
        assert!(writable(&outside));
        assert_eq!(root.join("program").metadata().unwrap().permissions().mode() & 0o777, 0o555);
        open(&root).unwrap();
        for path in ["", "a", "a/b", "a/b/file", "program"] {
            assert!(writable(&root.join(path)), "{path}");
        }
    }
}
