//! Tries merges without keeping them: would merging the branch change the base?

use std::collections::{BTreeMap, BTreeSet};

use grove_model::CommitSha;

use crate::command::GitInvocation;
use crate::command::planted::BlockedPrograms;
use crate::{GitError, Repository};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TrialOutcome {
    /// The tree of the merged files.
    Clean(String),
    /// The tree of the merged files, with both sides of each conflict in its file.
    Conflict(String),
    /// Git gave no answer for this merge.
    Refused,
}

impl TrialOutcome {
    pub fn result_tree(&self) -> Option<&str> {
        match self {
            TrialOutcome::Clean(tree) | TrialOutcome::Conflict(tree) => Some(tree),
            TrialOutcome::Refused => None,
        }
    }
}

/// The merges that were tried, with the objects that git wrote for them.
pub(super) struct MergeTrial {
    outcomes: BTreeMap<(String, String), TrialOutcome>,
    objects: Option<ScratchObjects>,
}

impl MergeTrial {
    pub fn merge_outcome(&self, base: &CommitSha, head: &CommitSha) -> Option<&TrialOutcome> {
        self.outcomes.get(&(base.to_string(), head.to_string()))
    }

    /// Lets a command read the results of the merges.
    pub fn reading_results<'a>(&self, command: GitInvocation<'a>) -> GitInvocation<'a> {
        match &self.objects {
            Some(objects) => command.with_env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects.0),
            None => command,
        }
    }
}

/// Tries to merge the second of each pair into the first, in one process. The objects that git
/// writes go to a temporary directory, which is deleted with the [`MergeTrial`].
pub(super) async fn try_merges(repo: &Repository, pairs: &BTreeSet<(String, String)>) -> Result<MergeTrial, GitError> {
    let mut found = BTreeMap::new();
    if pairs.is_empty() {
        return Ok(MergeTrial { outcomes: found, objects: None });
    }
    let all: Vec<&(String, String)> = pairs.iter().collect();
    let mut rest = &all[..];
    let failed = |error: std::io::Error| GitError::unreadable_output("merge-tree", error.to_string());
    let scratch = ScratchObjects::create_dir(repo).map_err(failed)?;
    while !rest.is_empty() {
        let lines: String = rest.iter().map(|(base, head)| format!("{base} {head}\n")).collect();
        let tried = repo.new_command("merge-tree").without_programs(BlockedPrograms::All);
        let tried = tried.args(["--write-tree", "--stdin", "-z", "--no-messages", "--allow-unrelated-histories"]);
        let tried = tried.with_env("GIT_OBJECT_DIRECTORY", &scratch.0);
        let tried = tried.with_env("GIT_ALTERNATE_OBJECT_DIRECTORIES", repo.common_dir.join("objects"));
        let output = tried.with_stdin(lines).with_long_timeout().run_for(&[0, 1, 128, 129]).await?;
        let answers = parse_outcomes(&output.stdout);
        let count = answers.len();
        for (pair, answer) in rest.iter().zip(answers) {
            found.insert((*pair).clone(), answer);
        }
        if count >= rest.len() {
            break;
        }
        // A merge that git refuses ends the batch: continue after it.
        found.insert(rest[count].clone(), TrialOutcome::Refused);
        rest = &rest[count + 1..];
    }
    Ok(MergeTrial { outcomes: found, objects: Some(scratch) })
}

/// Parses `<1 or 0>\0<tree>\0[<conflicted file>\0…]\0` for each merge.
fn parse_outcomes(output: &[u8]) -> Vec<TrialOutcome> {
    let mut answers = Vec::new();
    let mut fields = output.split(|byte| *byte == 0);
    while let (Some(clean), Some(tree)) = (fields.next(), fields.next()) {
        let (Ok(clean), Ok(tree)) = (std::str::from_utf8(clean), std::str::from_utf8(tree)) else { break };
        // The list of conflicted files ends with an empty field.
        let ended = fields.by_ref().any(<[u8]>::is_empty);
        match (clean, ended) {
            ("1", true) => answers.push(TrialOutcome::Clean(tree.to_owned())),
            ("0", true) => answers.push(TrialOutcome::Conflict(tree.to_owned())),
            _ => break,
        }
    }
    answers
}

/// A temporary directory for objects that are not kept.
struct ScratchObjects(std::path::PathBuf);

impl ScratchObjects {
    fn create_dir(repo: &Repository) -> std::io::Result<Self> {
        let dir = crate::lock::grove_dir(&repo.common_dir)?.join(format!("scratch-{}", grove_model::Nonce::new()));
        std::fs::create_dir(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for ScratchObjects {
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
        let clean = |tree: &str| TrialOutcome::Clean(tree.to_owned());
        let conflict = TrialOutcome::Conflict("bbbb".to_owned());
        assert_eq!(parse_outcomes(&whole), [clean("aaaa"), conflict.clone(), clean("cccc")]);
        assert_eq!(parse_outcomes(&whole[..whole.len() - 3]), [clean("aaaa"), conflict]);
        assert_eq!(parse_outcomes(b""), []);
    }
}
