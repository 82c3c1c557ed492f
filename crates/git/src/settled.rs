//! Asks git cheaply whether anything changed since a checkout.
//!
//! Git compares whole seconds. An index that was written in the same second as the files is "racy":
//! git reads every such file again, each time it is asked. No other process sees the checkout of
//! our creation until it is complete, so its index is right when it is written, and a stamp of it
//! is kept. As long as the index is that one and our finer clock shows that no file was touched
//! since, git may be asked with a copy that looks a little younger. The real index is never
//! touched. Nothing is known of any other index: another process may have written a file while git
//! was writing it.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use grove_model::Nonce;

use crate::durable::{MAX_SMALL_FILE_BYTES, read_plain};
use crate::lock::grove_dir;

/// A time as the file system keeps it: seconds and nanoseconds.
pub(crate) type FileTime = (i64, i64);

/// Returns the time of the last change to a file: its bytes, its mode, its name.
pub(crate) fn last_touched(meta: &fs::Metadata) -> FileTime {
    (meta.mtime(), meta.mtime_nsec()).max((meta.ctime(), meta.ctime_nsec()))
}

/// Returns the path of the stamp of an entry's index, which exists if our creation wrote the index.
fn stamp_place(common_dir: &Path, entry: &Path) -> PathBuf {
    common_dir.join("grove/indexes").join(entry.file_name().unwrap_or_default())
}

/// Returns a stamp that changes with every write of an index: its size, time, inode number and the
/// checksum at its end.
pub(crate) fn stamp_of(index: &Path) -> std::io::Result<Vec<u8>> {
    if !index.symlink_metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a plain file"));
    }
    let mut file = File::open(index)?;
    let meta = file.metadata()?;
    let mut stamp = format!("{} {} {} {} ", meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ino()).into_bytes();
    file.seek(SeekFrom::Start(meta.len().saturating_sub(32)))?;
    file.read_to_end(&mut stamp)?;
    Ok(stamp)
}

/// Records that the index of this entry, as `stamp` describes it, is right for files that no other
/// process has seen yet. Without the stamp git is only slower.
pub(crate) fn vouch_for(common_dir: &Path, entry: &Path, stamp: &[u8]) {
    let place = stamp_place(common_dir, entry);
    let made = place.parent().map_or(Ok(()), fs::create_dir_all);
    if let Err(error) = made.and_then(|()| fs::write(&place, stamp)) {
        tracing::debug!("{} could not be written: {error}", place.display());
    }
}

/// Removes the stamp: the index no longer counts as right.
pub(crate) fn remove_stamp(common_dir: &Path, entry: &Path) {
    let _ = fs::remove_file(stamp_place(common_dir, entry));
}

/// A temporary file that is deleted when the value is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryFile(pub PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub(crate) fn temporary_index(common_dir: &Path) -> std::io::Result<TemporaryFile> {
    Ok(TemporaryFile(grove_dir(common_dir)?.join(format!("index-{}", Nonce::new()))))
}

/// Creates a config file for one call.
pub(crate) fn temporary_config(common_dir: &Path) -> std::io::Result<TemporaryFile> {
    Ok(TemporaryFile(grove_dir(common_dir)?.join(format!("config-{}", Nonce::new()))))
}

/// Copies an entry's index so that git need not distrust it, if that helps: the files were written
/// in the same second as the index, and the last of them (`newest`) before it.
pub(crate) fn settled_index(common_dir: &Path, entry: &Path, newest: Option<FileTime>) -> Option<TemporaryFile> {
    let index = entry.join("index");
    if read_plain(&stamp_place(common_dir, entry), MAX_SMALL_FILE_BYTES).ok()? != stamp_of(&index).ok()? {
        return None;
    }
    let written = fs::metadata(&index).ok().map(|meta| (meta.mtime(), meta.mtime_nsec()))?;
    let newest = newest?;
    if newest.0 < written.0 || newest >= written {
        return None;
    }
    let copy = temporary_index(common_dir).ok()?;
    fs::copy(&index, &copy.0).ok()?;
    let younger = SystemTime::UNIX_EPOCH + Duration::from_secs(written.0.unsigned_abs() + 2);
    File::options().write(true).open(&copy.0).and_then(|file| file.set_modified(younger)).ok()?;
    Some(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_index_younger_than_every_file_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path().join("index");
        fs::write(&index, "index").unwrap();
        let at = |seconds: u64, nanos: u32| SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        File::options().write(true).open(&index).unwrap().set_modified(at(1000, 500)).unwrap();
        let settled = |newest| settled_index(dir.path(), dir.path(), newest);
        assert!(settled(Some((1000, 499))).is_none(), "nobody vouches for it");
        vouch_for(dir.path(), dir.path(), &stamp_of(&index).unwrap());
        assert!(settled(None).is_none(), "not known");
        assert!(settled(Some((1000, 500))).is_none(), "at the same moment");
        assert!(settled(Some((1000, 501))).is_none(), "after it");
        assert!(settled(Some((999, 999))).is_none(), "git does not distrust it anyway");
        let copy = settled(Some((1000, 499))).unwrap();
        assert_eq!(fs::read_to_string(&copy.0).unwrap(), "index");
        assert_eq!(fs::metadata(&copy.0).unwrap().mtime(), 1002);
        assert_eq!(fs::metadata(&index).unwrap().mtime(), 1000, "the real one stays as it is");
        let path = copy.0.clone();
        drop(copy);
        assert!(!path.exists());
        fs::write(&index, "other").unwrap();
        File::options().write(true).open(&index).unwrap().set_modified(at(1000, 500)).unwrap();
        assert!(settled(Some((1000, 499))).is_none(), "it was written again");
    }
}
