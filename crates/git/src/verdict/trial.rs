//! Merges that are only tried: would merging the branch change the base?

use std::collections::{BTreeMap, BTreeSet};

use crate::planted::Programs;
use crate::{GitError, Repository};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With the files that it would give, as a tree.
    Clean(String),
    Conflict,
    /// Git gave no answer for this one.
    Refused,
}

/// Tries to merge each second into its first, in one process. What git writes on the way goes to a
/// place of its own and is thrown away.
pub(super) async fn merges(
    repo: &Repository,
    pairs: &BTreeSet<(String, String)>,
) -> Result<BTreeMap<(String, String), Outcome>, GitError> {
    let mut found = BTreeMap::new();
    if pairs.is_empty() {
        return Ok(found);
    }
    let all: Vec<&(String, String)> = pairs.iter().collect();
    let mut rest = &all[..];
    let failed = |error: std::io::Error| GitError::unreadable("merge-tree", error.to_string());
    let scratch = Scratch::new(repo).map_err(failed)?;
    while !rest.is_empty() {
        let lines: String = rest.iter().map(|(base, head)| format!("{base} {head}\n")).collect();
        let tried = repo.command("merge-tree").disarmed(Programs::All);
        let tried = tried.args(["--write-tree", "--stdin", "-z", "--no-messages", "--allow-unrelated-histories"]);
        let tried = tried.env("GIT_OBJECT_DIRECTORY", &scratch.0);
        let tried = tried.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", repo.common_dir.join("objects"));
        let output = tried.stdin(lines).long().run_for(&[0, 1, 128, 129]).await?;
        let answers = read(&output.stdout);
        let count = answers.len();
        for (pair, answer) in rest.iter().zip(answers) {
            found.insert((*pair).clone(), answer);
        }
        if count >= rest.len() {
            break;
        }
        // One that git refuses ends the batch: go on behind it.
        found.insert(rest[count].clone(), Outcome::Refused);
        rest = &rest[count + 1..];
    }
    Ok(found)
}

/// `<1 or 0>\0<tree>\0[<conflicted file>\0…]\0` for each.
fn read(output: &[u8]) -> Vec<Outcome> {
    let mut answers = Vec::new();
    let mut fields = output.split(|byte| *byte == 0);
    while let (Some(clean), Some(tree)) = (fields.next(), fields.next()) {
        let (Ok(clean), Ok(tree)) = (std::str::from_utf8(clean), std::str::from_utf8(tree)) else { break };
        // The list of conflicted files ends with an empty field.
        let ended = fields.by_ref().any(<[u8]>::is_empty);
        match (clean, ended) {
            ("1", true) => answers.push(Outcome::Clean(tree.to_owned())),
            ("0", true) => answers.push(Outcome::Conflict),
            _ => break,
        }
    }
    answers
}

/// A directory for objects that nobody keeps.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(repo: &Repository) -> std::io::Result<Self> {
        let dir = crate::lock::grove_dir(&repo.common_dir)?.join(format!("scratch-{}", grove_model::Nonce::new()));
        std::fs::create_dir(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart_and_half_ones_do_not_count() {
        let fields = ["1", "aaaa", "", "0", "bbbb", "100644 c 1\tf", "100644 d 2\tf", "", "1", "cccc", "", ""];
        let whole = fields.join("\0").into_bytes();
        let clean = |tree: &str| Outcome::Clean(tree.to_owned());
        assert_eq!(read(&whole), [clean("aaaa"), Outcome::Conflict, clean("cccc")]);
        assert_eq!(read(&whole[..whole.len() - 3]), [clean("aaaa"), Outcome::Conflict]);
        assert_eq!(read(b""), []);
    }
}
