//! Removes write access from files, so that no process writes them by mistake.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Removes write permission from everything below a folder. This stops processes that respect
/// permissions; the superuser does not.
pub(super) fn remove_write_access(root: &Path) -> io::Result<()> {
    change_modes(root, |mode, _| mode & !0o222)
}

/// Restores the owner's write permission.
pub(super) fn restore_write_access(root: &Path) -> io::Result<()> {
    change_modes(root, |mode, folder| mode | if folder { 0o700 } else { 0o200 })
}

/// Changes the modes of everything below a folder. Links are not followed.
fn change_modes(root: &Path, new: impl Fn(u32, bool) -> u32) -> io::Result<()> {
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
        remove_write_access(&root).unwrap();
        for path in ["", "a", "a/b", "a/b/file", "program"] {
            assert!(!writable(&root.join(path)), "{path}");
        }
        assert!(writable(&outside));
        assert_eq!(root.join("program").metadata().unwrap().permissions().mode() & 0o777, 0o555);
        restore_write_access(&root).unwrap();
        for path in ["", "a", "a/b", "a/b/file", "program"] {
            assert!(writable(&root.join(path)), "{path}");
        }
    }
}
