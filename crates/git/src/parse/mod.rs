//! Pure parsers of git's machine-readable output. They never panic; what they cannot read is an
//! error, since an answer that was not understood is not an answer.

mod refs;
mod status;
mod worktrees;

pub use refs::{REF_FORMAT, RefLine, refs};
pub use status::{Counts, Status, status};
pub use worktrees::{WorktreeEntry, WorktreeHead, worktrees};

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

pub(crate) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned()
}
