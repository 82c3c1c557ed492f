//! File locks inside a repository's common directory, among Grovekeeper's own processes.
//!
//! The kernel releases them when their holder ends, however it ends, so none is ever stale.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

/// Held until dropped.
#[derive(Debug)]
pub struct FileLock(#[expect(dead_code, reason = "the open file is the lock")] File);

/// Waits for the lock `name` of the repository. Polls, so that a caller that gives up leaves no
/// thread behind.
pub async fn repository_lock(common_dir: &Path, name: &str) -> io::Result<FileLock> {
    let dir = grove_dir(common_dir)?;
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(dir.join(name))?;
    let mut pause = Duration::from_millis(1);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(FileLock(file)),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Our own directory inside the repository's: locks, staging, time stamps. Git ignores it.
pub(crate) fn grove_dir(common_dir: &Path) -> io::Result<std::path::PathBuf> {
    let dir = common_dir.join("grove");
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}
