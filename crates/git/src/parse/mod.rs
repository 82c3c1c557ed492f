//! Pure parsers of git's machine-readable output. They never panic; output that they cannot read is
//! an error, since it does not answer the question.

mod refs;
mod status;
mod worktrees;

pub use refs::{REF_FORMAT, RefLine, parse_refs};
pub use status::{StatusCounts, WorktreeStatus, parse_status};
pub use worktrees::{WorktreeEntry, WorktreeHead, parse_worktrees};

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::GitError;

pub(crate) fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// Parses the path of a file as an index, a tree or a list of ours may name it: plain names, below the top.
/// An index that an agent can write may hold others (`../../repo/file`, `/etc/passwd`, `.git/hooks/x`), and
/// such a path is never opened, deleted or written.
pub(crate) fn tracked_path(bytes: &[u8]) -> Result<PathBuf, GitError> {
    let is_plain =
        |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.eq_ignore_ascii_case(b".git") && !name.contains(&0);
    if bytes.split(|byte| *byte == b'/').all(is_plain) {
        Ok(path_from_bytes(bytes))
    } else {
        Err(GitError::unreadable_output("path", format!("`{}` is not below the worktree", text_excerpt(bytes))))
    }
}

pub(crate) fn text_excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::tracked_path;

    #[test]
    fn only_plain_names_below_the_top_are_paths_of_tracked_files() {
        for good in ["a", "a/b.c/d", ".gitignore", "..a/...", "a b/\u{e9}\n", "-x"] {
            assert_eq!(tracked_path(good.as_bytes()).unwrap().to_str(), Some(good));
        }
        for bad in
            ["", "/", "/a", "a/", "a//b", ".", "./a", "a/.", "..", "../a", "a/../b", "a/..", ".git", "a/.GIT/x", "a\0b"]
        {
            assert!(tracked_path(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
