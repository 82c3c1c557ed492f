//! Parses `git worktree list --porcelain -z`.

use std::path::PathBuf;

use grove_model::CommitSha;

use super::{path_from_bytes, text_excerpt};
use crate::GitError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeHead {
    Bare,
    /// The full name of the ref; the commit is missing while the branch is unborn.
    Branch {
        full_ref: String,
        at: Option<CommitSha>,
    },
    Detached(CommitSha),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeEntry {
    pub path: PathBuf,
    pub head: WorktreeHead,
    /// The reason given, which may be empty.
    pub locked: Option<String>,
    pub prunable: Option<String>,
}

impl WorktreeEntry {
    /// Returns the branch that is checked out, without `refs/heads/`.
    pub fn branch_name(&self) -> Option<&str> {
        match &self.head {
            WorktreeHead::Branch { full_ref, .. } => full_ref.strip_prefix("refs/heads/"),
            _ => None,
        }
    }
}

/// Parses git's list; the main worktree comes first.
pub fn parse_worktrees(output: &[u8]) -> Result<Vec<WorktreeEntry>, GitError> {
    let mut entries = Vec::new();
    let mut attributes: Vec<&[u8]> = Vec::new();
    // Each entry ends with an empty field, so a complete answer ends with two NULs.
    if !output.is_empty() && !output.ends_with(b"\0\0") {
        return Err(unreadable_list("it ends in the middle of an entry"));
    }
    for field in output.split(|byte| *byte == 0) {
        if !field.is_empty() {
            attributes.push(field);
        } else if !attributes.is_empty() {
            entries.push(parse_entry(&attributes)?);
            attributes.clear();
        }
    }
    Ok(entries)
}

fn parse_entry(attributes: &[&[u8]]) -> Result<WorktreeEntry, GitError> {
    let (mut place, mut at, mut full_ref, mut bare) = (None, None, None, false);
    let (mut locked, mut prunable) = (None, None);
    for attribute in attributes {
        let split = attribute.iter().position(|byte| *byte == b' ');
        let (name, value) = match split {
            Some(space) => (&attribute[..space], &attribute[space + 1..]),
            None => (*attribute, &[][..]),
        };
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"worktree" => place = Some(path_from_bytes(value)),
            b"HEAD" => at = Some(text()),
            b"branch" => full_ref = Some(text()),
            b"bare" => bare = true,
            b"locked" => locked = Some(text()),
            b"prunable" => prunable = Some(text()),
            // `detached` follows from HEAD without branch; newer gits may add attributes.
            _ => {}
        }
    }
    let path =
        place.ok_or_else(|| unreadable_list(&format!("an entry without a path: {}", text_excerpt(attributes[0]))))?;
    // An unborn branch is listed with the all-zero id.
    let at = match at {
        Some(id) if !id.bytes().all(|b| b == b'0') => {
            Some(id.parse().map_err(|_| unreadable_list(&format!("HEAD {id}")))?)
        }
        _ => None,
    };
    let head = match (bare, full_ref, at) {
        (true, ..) => WorktreeHead::Bare,
        (false, Some(full_ref), at) => WorktreeHead::Branch { full_ref, at },
        (false, None, Some(at)) => WorktreeHead::Detached(at),
        (false, None, None) => return Err(unreadable_list(&format!("{} has neither branch nor HEAD", path.display()))),
    };
    Ok(WorktreeEntry { path, head, locked, prunable })
}

fn unreadable_list(detail: &str) -> GitError {
    GitError::unreadable_output("worktree list", detail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn print_entries(entries: &[WorktreeEntry]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut field = |text: String| {
            out.extend(text.into_bytes());
            out.push(0);
        };
        for entry in entries {
            field(format!("worktree {}", entry.path.display()));
            match &entry.head {
                WorktreeHead::Bare => field("bare".into()),
                WorktreeHead::Branch { full_ref, at } => {
                    field(format!("HEAD {}", at.as_ref().map_or("0".repeat(40), ToString::to_string)));
                    field(format!("branch {full_ref}"));
                }
                WorktreeHead::Detached(at) => {
                    field(format!("HEAD {at}"));
                    field("detached".into());
                }
            }
            let flag =
                |name: &str, reason: &str| if reason.is_empty() { name.to_owned() } else { format!("{name} {reason}") };
            if let Some(reason) = &entry.locked {
                field(flag("locked", reason));
            }
            if let Some(reason) = &entry.prunable {
                field(flag("prunable", reason));
            }
            field(String::new());
        }
        out
    }

    fn any_entry() -> impl Strategy<Value = WorktreeEntry> {
        let sha = "[1-9a-f]{40}".prop_map(|hex| hex.parse::<CommitSha>().unwrap());
        let head = prop_oneof![
            Just(WorktreeHead::Bare),
            ("[a-z/]{1,10}", proptest::option::of(sha.clone()))
                .prop_map(|(name, at)| WorktreeHead::Branch { full_ref: format!("refs/heads/{name}"), at }),
            sha.prop_map(WorktreeHead::Detached),
        ];
        let reason = || proptest::option::of("[a-z \n]{0,8}");
        // Newlines, spaces and words that look like attributes are ordinary in paths.
        ("/[a-z \nöHEADbranch]{1,20}", head, reason(), reason())
            .prop_map(|(path, head, locked, prunable)| WorktreeEntry { path: path.into(), head, locked, prunable })
    }

    proptest! {
        #[test]
        fn what_git_prints_is_read_back(entries in proptest::collection::vec(any_entry(), 0..6)) {
            prop_assert_eq!(parse_worktrees(&print_entries(&entries)).unwrap(), entries);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
            let _ = parse_worktrees(&bytes);
        }

        #[test]
        fn a_cut_off_answer_never_looks_whole(entries in proptest::collection::vec(any_entry(), 1..4), cut in any::<prop::sample::Index>()) {
            let whole = print_entries(&entries);
            let cut = cut.index(whole.len());
            if let Ok(read) = parse_worktrees(&whole[..cut]) {
                prop_assert!(read.len() < entries.len());
                prop_assert_eq!(&read[..], &entries[..read.len()]);
            }
        }
    }
}
