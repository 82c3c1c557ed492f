//! What can be said file by file, without a merge.
//!
//! If the base has every file that a branch changed just as the branch left it, a merge would
//! change nothing. If it has one of them as it was before, a merge would. Only where both changed
//! one file a merge has to be tried.

use std::collections::{BTreeMap, BTreeSet};

use crate::{GitError, Repository};

/// Two trees.
pub(super) type Pair = (String, String);
/// Mode and object of a file before and after.
type Change = (String, String);
/// The files in which two trees differ, by their names as git prints them.
pub(super) type Differences = BTreeMap<Pair, BTreeMap<String, Change>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The base has all of it.
    Merged,
    /// The base lacks some of it.
    Unmerged,
    /// Both changed a file.
    Unclear,
}

/// Compares all pairs in one process.
pub(super) async fn differences(repo: &Repository, pairs: &BTreeSet<Pair>) -> Result<Differences, GitError> {
    let mut found: Differences = pairs.iter().map(|pair| (pair.clone(), BTreeMap::new())).collect();
    if pairs.is_empty() {
        return Ok(found);
    }
    let lines: String = pairs.iter().map(|(from, to)| format!("{from} {to}\n")).collect();
    let compared = repo.command("diff-tree").args(["--stdin", "-r", "--raw", "--no-abbrev", "--no-renames"]);
    let output = compared.stdin(lines).long().run().await?.stdout;
    let mut current: Option<Pair> = None;
    for line in String::from_utf8_lossy(&output).lines() {
        let unreadable = || GitError::unreadable("diff-tree", line);
        let Some(change) = line.strip_prefix(':') else {
            let (from, to) = line.split_once(' ').ok_or_else(unreadable)?;
            current = Some((from.to_owned(), to.to_owned()));
            continue;
        };
        let (header, path) = change.split_once('\t').ok_or_else(unreadable)?;
        let fields: Vec<&str> = header.split(' ').collect();
        let [old_mode, new_mode, old, new, _] = fields[..] else { return Err(unreadable()) };
        let of_pair = current.as_ref().and_then(|pair| found.get_mut(pair)).ok_or_else(unreadable)?;
        of_pair.insert(path.to_owned(), (format!("{old_mode} {old}"), format!("{new_mode} {new}")));
    }
    Ok(found)
}

/// What the changed files alone say of a branch that began at `fork`, is `head` and may be in `base`.
pub(super) fn said(found: &Differences, fork: &str, head: &str, base: &str) -> Said {
    let of = |from: &str, to: &str| found.get(&(from.to_owned(), to.to_owned()));
    let (Some(own), Some(apart)) = (of(fork, head), of(head, base)) else { return Said::Unclear };
    let mut said = Said::Merged;
    for (path, (was, _)) in own {
        match apart.get(path) {
            None => {}
            Some((_, now)) if now == was => return Said::Unmerged,
            Some(_) => said = Said::Unclear,
        }
    }
    said
}
