//! Finds out from a branch's reflog whether a commit was ever made on it.
//!
//! Reflogs are files, read without git; in a repository with reftable they are not, and one git process reads
//! those of all branches.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;

use crate::{GitError, Repository};

/// Tells for each of these refs whether a commit was made on it; a ref that is left out could not
/// be read. A ref without a reflog counts as one without commits of its own.
pub async fn worked_on(repo: &Repository, refs: &[String]) -> Result<HashMap<String, bool>, GitError> {
    if repo.common_dir.join("reftable").exists() {
        return in_reftable(repo, refs).await;
    }
    let mut found = HashMap::new();
    for name in refs {
        let log = match fs::read(repo.common_dir.join("logs").join(name)) {
            Ok(log) => log,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => Vec::new(),
            Err(error) => {
                tracing::warn!("the reflog of {name} cannot be read: {error}");
                continue;
            }
        };
        found.insert(name.clone(), reflog_tells_of_commits(&String::from_utf8_lossy(&log)));
    }
    Ok(found)
}

async fn in_reftable(repo: &Repository, refs: &[String]) -> Result<HashMap<String, bool>, GitError> {
    let mut found: HashMap<String, bool> = refs.iter().map(|name| (name.clone(), false)).collect();
    if refs.is_empty() {
        return Ok(found);
    }
    let names: String = refs.iter().map(|name| format!("{name}\n")).collect();
    // In the format of a reflog file: the previous commit is not needed, and `-g` does not give it.
    let flags = ["-g", "--ignore-missing", "--no-show-signature", "--format=%gD%x00- %H%x09%gs", "--stdin"];
    let listed = repo.new_command("log").args(flags).with_stdin(names).with_long_timeout().run_to_text().await?;
    for line in listed.lines() {
        // `refs/heads/x@{3}`; no name of a branch holds `@{`.
        let entry = line.split_once('\0').and_then(|(place, entry)| Some((place.split_once("@{")?.0, entry)));
        let (name, entry) = entry.ok_or_else(|| GitError::unreadable_output("log", line))?;
        let worked = found.get_mut(name).ok_or_else(|| GitError::unreadable_output("log", line))?;
        *worked |= reflog_tells_of_commits(entry);
    }
    Ok(found)
}

/// Tells whether a branch's reflog has a commit that was made on it, not only one that it was moved
/// to.
pub fn reflog_tells_of_commits(log: &str) -> bool {
    let made = ["commit", "cherry-pick", "revert", "am", "rebase", "merge", "pull"];
    log.lines().filter_map(|line| line.split_once('\t')).any(|(ids, message)| {
        let verb = message.split([':', ' ', '(']).next().unwrap_or_default();
        // A rebase of nothing ends at its target.
        let now = ids.split(' ').nth(1).unwrap_or_default();
        let onto = message.rsplit_once(" onto ").map(|(_, onto)| onto.trim());
        let moved = message.contains(": Fast-forward") || onto.is_some_and(|onto| onto == now);
        made.contains(&verb) && !moved
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reflog_tells_making_from_moving() {
        let log = |message: &str| format!("a b A <a@b> 1 +0000\t{message}\n");
        for made in [
            "commit: x",
            "commit (amend): x",
            "commit (initial): x",
            "cherry-pick: x",
            "rebase (finish): refs/heads/x onto y",
            "merge main: Merge made by the 'ort' strategy.",
            "am: x",
        ] {
            assert!(reflog_tells_of_commits(&log(made)), "{made}");
        }
        for moved in [
            "branch: Created from main",
            "reset: moving to x",
            "merge main: Fast-forward",
            "pull: Fast-forward",
            "grove: 0192",
            "commitment",
        ] {
            assert!(!reflog_tells_of_commits(&log(moved)), "{moved}");
        }
    }
}
