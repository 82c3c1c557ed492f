//! The interface to what runs programs inside an environment, and ends everything that they start.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use grove_git::lock::{LockFiles, RunLocks};
use serde::{Deserialize, Serialize};

/// The number of bytes of a script's output that are kept.
const MAX_KEPT_OUTPUT_BYTES: usize = 1024 * 1024;

/// The location of a run: the locks that the program and all its child processes hold, and the identity of
/// its directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunLocation {
    pub locks: LockFiles,
    device: u64,
    inode: u64,
}

impl RunLocation {
    /// Takes a directory as it is now.
    pub fn from_directory(directory: &Path, locks: LockFiles) -> io::Result<Self> {
        let meta = directory.symlink_metadata()?;
        Ok(Self { locks, device: meta.dev(), inode: meta.ino() })
    }

    /// Locks the directory for a run: from here on it is not moved. Returns `None` if it no longer exists.
    pub fn hold_for_run(&self, directory: &Path) -> io::Result<Option<RunLocks>> {
        let Some(locks) = self.locks.try_hold_run()? else { return Ok(None) };
        let same = directory.symlink_metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == (self.device, self.inode));
        Ok(same.then_some(locks))
    }
}

/// A script to run.
pub struct ScriptRun<'a> {
    pub command: Vec<String>,
    /// All variables that the script gets.
    pub variables: BTreeMap<String, String>,
    pub cwd: &'a Path,
    pub location: &'a RunLocation,
    pub timeout: Duration,
    pub output: &'a ScriptOutput<'a>,
}

/// The end of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptExit {
    Success,
    Failed { code: i32 },
    TimedOut,
}

#[async_trait]
pub trait ScriptRunner: Send + Sync {
    /// Runs a script to its end. The error says why it could not be started.
    async fn run_script(&self, run: ScriptRun<'_>) -> Result<ScriptExit, String>;
}

/// The output of a script: shown as it comes, and kept up to a limit.
pub struct ScriptOutput<'a> {
    show: &'a (dyn Fn(&str) + Send + Sync),
    kept: Mutex<KeptOutput>,
}

#[derive(Default)]
struct KeptOutput {
    bytes: Vec<u8>,
    left_out: usize,
}

impl<'a> ScriptOutput<'a> {
    pub fn new(show: &'a (dyn Fn(&str) + Send + Sync)) -> Self {
        Self { show, kept: Mutex::default() }
    }

    /// Takes a piece of the output.
    pub fn push_bytes(&self, bytes: &[u8]) {
        (self.show)(&String::from_utf8_lossy(bytes));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes.extend_from_slice(bytes);
        let over = kept.bytes.len().saturating_sub(MAX_KEPT_OUTPUT_BYTES);
        // Cut rarely, since every cut copies what is kept.
        if over > MAX_KEPT_OUTPUT_BYTES {
            kept.bytes.drain(..over);
            kept.left_out += over;
        }
    }

    /// Returns the end of the output, with a note if its beginning is missing.
    pub fn into_text(self) -> String {
        let mut kept = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let over = kept.bytes.len().saturating_sub(MAX_KEPT_OUTPUT_BYTES);
        kept.bytes.drain(..over);
        let left_out = kept.left_out + over;
        let text = String::from_utf8_lossy(&kept.bytes).into_owned();
        if left_out == 0 { text } else { format!("(The first {left_out} bytes are left out.)\n{text}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_long_output_is_kept() {
        let output = ScriptOutput::new(&|_| {});
        output.push_bytes(b"first\n");
        for _ in 0..40 {
            output.push_bytes(&[b'x'; 100_000]);
        }
        output.push_bytes(b"\nlast\n");
        let text = output.into_text();
        assert!(text.ends_with("\nlast\n") && !text.contains("first\n"), "{}", text.len());
        assert!(text.starts_with("(The first 2951436 bytes are left out.)\n"), "{}", &text[..60]);
        assert_eq!(text.len(), MAX_KEPT_OUTPUT_BYTES + "(The first 2951436 bytes are left out.)\n".len());
    }
}
