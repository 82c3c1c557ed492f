//! Decides file by file, without a merge.
//!
//! If the base has every file that a branch changed exactly as the branch left it, a merge would
//! change nothing. If it has one of them as it was before, a merge would change it. Only if both
//! changed one file, a merge has to be tried.

use std::collections::{BTreeMap, BTreeSet};

use crate::{GitError, Repository};

/// Two trees.
pub(super) type TreePair = (String, String);
/// Mode and object of a file before and after.
type TreeFileChange = (String, String);
/// The files in which two trees differ, by their names as git prints them.
pub(super) type TreeDifferences = BTreeMap<TreePair, BTreeMap<String, TreeFileChange>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathVerdict {
    /// The base has all of it.
    Merged,
    /// The base lacks some of it.
    Unmerged,
    /// Both changed a file.
    Unclear,
}

/// Compares all pairs in one process.
pub(super) async fn compare_trees(repo: &Repository, pairs: &BTreeSet<TreePair>) -> Result<TreeDifferences, GitError> {
    let mut found: TreeDifferences = pairs.iter().map(|pair| (pair.clone(), BTreeMap::new())).collect();
    if pairs.is_empty() {
        return Ok(found);
    }
    let lines: String = pairs.iter().map(|(from, to)| format!("{from} {to}\n")).collect();
    let compared = repo.new_command("diff-tree").args(["--stdin", "-r", "--raw", "--no-abbrev", "--no-renames"]);
    let output = compared.with_stdin(lines).with_long_timeout().run().await?.stdout;
    let mut current: Option<TreePair> = None;
    for line in String::from_utf8_lossy(&output).lines() {
        let unreadable = || GitError::unreadable_output("diff-tree", line);
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

/// Returns the verdict of the changed files alone on a branch that began at `fork`, is at `head` and may be
/// in `base`.
pub(super) fn judge_by_paths(found: &TreeDifferences, fork: &str, head: &str, base: &str) -> PathVerdict {
    let of = |from: &str, to: &str| found.get(&(from.to_owned(), to.to_owned()));
    let (Some(own), Some(apart)) = (of(fork, head), of(head, base)) else { return PathVerdict::Unclear };
    let mut said = PathVerdict::Merged;
    for (path, (was, _)) in own {
        match apart.get(path) {
            None => {}
            Some((_, now)) if now == was => return PathVerdict::Unmerged,
            Some(_) => said = PathVerdict::Unclear,
        }
    }
    said
}
