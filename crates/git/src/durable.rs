//! Writes that are on the disk when they return, and reads that never block.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use cap_std::fs::Dir;
use rustix::fs::OFlags;

pub(crate) fn write_synced(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.sync_all()
}

pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Reads a whole plain file of at most `longest` bytes. For files that an agent can write: a link,
/// a pipe or an endless file is an error and does not block.
pub(crate) fn read_plain(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    read_opened(File::options().read(true).custom_flags(PLAIN_FLAGS.bits().cast_signed()).open(path)?, longest)
}

/// Reads a whole plain file of at most `longest` bytes beneath a folder; no link in `path` leads
/// out of the folder.
pub(crate) fn read_plain_at(folder: &Dir, path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    read_opened(open_plain_at(folder, path)?, longest)
}

/// Opens a file beneath a folder, without blocking on another process and without following a link at its
/// end.
pub(crate) fn open_plain_at(folder: &Dir, path: &Path) -> io::Result<File> {
    let mut options = cap_std::fs::OpenOptions::new();
    cap_std::fs::OpenOptionsExt::custom_flags(options.read(true), PLAIN_FLAGS.bits().cast_signed());
    Ok(folder.open_with(path, &options)?.into_std())
}

const PLAIN_FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW);

fn read_opened(file: File, longest: u64) -> io::Result<Vec<u8>> {
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > longest {
        return Err(io::Error::other("it is not a plain file of a sensible size"));
    }
    let mut bytes = Vec::new();
    file.take(longest).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The maximum size of git's small files.
pub(crate) const MAX_SMALL_FILE_BYTES: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files_are_read_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("plain"), "text").unwrap();
        assert_eq!(read_plain(&path("plain"), MAX_SMALL_FILE_BYTES).unwrap(), b"text");
        assert!(read_plain(&path("plain"), 3).is_err());
        std::os::unix::fs::symlink(path("plain"), path("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("endless")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for name in ["link", "endless", "pipe", "missing", "."] {
            assert!(read_plain(&path(name), MAX_SMALL_FILE_BYTES).is_err(), "{name}");
        }
    }
}
