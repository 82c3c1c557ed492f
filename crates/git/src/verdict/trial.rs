//! Merges that are only tried: would merging the branch change the base?

use std::collections::{BTreeMap, BTreeSet};

use grove_model::CommitSha;

use crate::command::Invocation;
use crate::command::planted::Programs;
use crate::{GitError, Repository};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With the files that it would give, as a tree.
    Clean(String),
    /// The same, with both sides of each conflict in its file.
    Conflict(String),
    /// Git gave no answer for this one.
    Refused,
}

impl Outcome {
    pub fn tree(&self) -> Option<&str> {
        match self {
            Outcome::Clean(tree) | Outcome::Conflict(tree) => Some(tree),
            Outcome::Refused => None,
        }
    }
}

/// Merges that were tried, with the objects that git wrote on the way.
pub(super) struct Trial {
    outcomes: BTreeMap<(String, String), Outcome>,
    objects: Option<Scratch>,
}

impl Trial {
    pub fn outcome(&self, base: &CommitSha, head: &CommitSha) -> Option<&Outcome> {
        self.outcomes.get(&(base.to_string(), head.to_string()))
    }

    /// Lets a command read what the merges would give.
    pub fn reading_results<'a>(&self, command: Invocation<'a>) -> Invocation<'a> {
        match &self.objects {
            Some(objects) => command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects.0),
            None => command,
        }
    }
}

/// Tries to merge each second into its first, in one process. What git writes on the way goes to a
/// place of its own and goes with the [`Trial`].
pub(super) async fn merges(repo: &Repository, pairs: &BTreeSet<(String, String)>) -> Result<Trial, GitError> {
    let mut found = BTreeMap::new();
    if pairs.is_empty() {
        return Ok(Trial { outcomes: found, objects: None });
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
    Ok(Trial { outcomes: found, objects: Some(scratch) })
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
            ("0", true) => answers.push(Outcome::Conflict(tree.to_owned())),
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
        let conflict = Outcome::Conflict("bbbb".to_owned());
        assert_eq!(read(&whole), [clean("aaaa"), conflict.clone(), clean("cccc")]);
        assert_eq!(read(&whole[..whole.len() - 3]), [clean("aaaa"), conflict]);
        assert_eq!(read(b""), []);
    }
}
