//! Writes that are on the disk when they return.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub(crate) fn write_synced(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.sync_all()
}

pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
