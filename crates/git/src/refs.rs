//! Reads, creates and moves refs; a ref only moves if it is where the caller expects it.

use std::collections::{BTreeSet, HashMap};

use grove_model::{BranchName, CommitSha, Moment};

use crate::parse::{self, REF_FORMAT, RefLine};
use crate::{GitError, Repository};

/// Some refs of a repository at one moment.
#[derive(Debug, Default)]
pub struct RefSnapshot(Vec<RefLine>);

impl RefSnapshot {
    pub fn get(&self, name: &str) -> Option<&RefLine> {
        self.0.iter().find(|line| line.name == name)
    }

    pub fn branch_ref(&self, branch: &BranchName) -> Option<&RefLine> {
        self.get(&branch.full_ref())
    }

    /// Returns a branch that cannot coexist with `branch`: `D` and `D/x` are a file and a folder.
    pub fn in_the_way_of(&self, branch: &BranchName) -> Option<&str> {
        let wanted = branch.full_ref();
        let clash = |name: &str| {
            name.strip_prefix(&wanted).or_else(|| wanted.strip_prefix(name)).is_some_and(|rest| rest.starts_with('/'))
        };
        let found = self.0.iter().find(|line| clash(&line.name));
        found.and_then(|line| line.name.strip_prefix("refs/heads/"))
    }
}

impl Repository {
    /// Returns the refs that match `patterns`: a full name, or a folder of names.
    pub async fn list_refs(&self, patterns: &[String]) -> Result<RefSnapshot, GitError> {
        let output =
            self.new_command("for-each-ref").arg(format!("--format={REF_FORMAT}")).arg("--").args(patterns).run();
        parse::parse_refs(&output.await?.stdout).map(RefSnapshot)
    }

    /// Returns the patterns that are needed to check `branch`: itself, the names below it and those
    /// above.
    pub fn patterns_around(branch: &BranchName) -> Vec<String> {
        let full = branch.full_ref();
        let above = full.match_indices('/').skip(2).map(|(slash, _)| full[..slash].to_owned());
        above.chain([full.clone()]).collect()
    }

    /// Returns the commit that a revision names, or `None` if it names none.
    pub async fn commit_of(&self, revision: &str) -> Result<Option<CommitSha>, GitError> {
        let asked = self
            .new_command("rev-parse")
            .args(["--quiet", "--verify", "--end-of-options"])
            .arg(format!("{revision}^{{commit}}"));
        match asked.run_for(&[0, 1, 128]).await? {
            output if output.code == 0 => {
                let text = String::from_utf8_lossy(&output.stdout);
                Ok(Some(text.trim().parse().map_err(|_| GitError::unreadable_output("rev-parse", text.trim()))?))
            }
            _ => Ok(None),
        }
    }

    /// Returns the id of a commit's tree.
    pub async fn tree_of(&self, commit: &CommitSha) -> Result<String, GitError> {
        self.new_command("rev-parse")
            .args(["--verify", "--end-of-options", &format!("{commit}^{{tree}}")])
            .run_to_text()
            .await
    }

    pub async fn is_ancestor(&self, older: &CommitSha, newer: &CommitSha) -> Result<bool, GitError> {
        let asked = self.new_command("merge-base").args(["--is-ancestor", older.as_str(), newer.as_str()]);
        Ok(asked.run_for(&[0, 1]).await?.code == 0)
    }

    /// Returns the time of each of these commits, in one process. A commit that no longer exists is
    /// left out and does not affect the others.
    pub async fn commit_times(&self, commits: &BTreeSet<CommitSha>) -> Result<HashMap<CommitSha, Moment>, GitError> {
        if commits.is_empty() {
            return Ok(HashMap::new());
        }
        let flags = ["--no-walk=unsorted", "--ignore-missing", "--no-commit-header", "--format=%H %ct", "--stdin"];
        let names: String = commits.iter().map(|commit| format!("{commit}\n")).collect();
        let listed = self.new_command("rev-list").args(flags).with_stdin(names).run_to_text().await?;
        let read = |line: &str| {
            let (commit, seconds) = line.split_once(' ')?;
            Some((commit.parse().ok()?, Moment::from_unix(seconds.parse().ok()?)?))
        };
        listed.lines().map(|line| read(line).ok_or_else(|| GitError::unreadable_output("rev-list", line))).collect()
    }

    /// Returns the upstream of a branch: `origin/feature`.
    pub async fn upstream_of(&self, branch: &BranchName) -> Result<Option<String>, GitError> {
        let asked = self.new_command("for-each-ref").args(["--format=%(upstream:short)", &branch.full_ref()]);
        match asked.run_to_text().await? {
            // In a clone of a single branch, git names no upstream that the remote's configuration does not
            // fetch.
            name if name.is_empty() => Ok(self.read_upstream(branch).await?.short_name()),
            name => Ok(Some(name)),
        }
    }

    /// Moves a ref from exactly `from` (`None`: it must not exist) to `to`, or fails.
    pub async fn move_ref(
        &self,
        name: &str,
        from: Option<&CommitSha>,
        to: &CommitSha,
        why: &str,
    ) -> Result<(), GitError> {
        let old = from.map_or_else(|| to.zero_sha(), ToString::to_string);
        self.new_command("update-ref").args(["--create-reflog", "-m", why, name, to.as_str(), &old]).run().await?;
        Ok(())
    }

    /// Deletes a ref that is at exactly `at`, or fails.
    pub async fn delete_ref(&self, name: &str, at: &CommitSha) -> Result<(), GitError> {
        self.new_command("update-ref").args(["--no-deref", "-d", name, at.as_str()]).run().await?;
        Ok(())
    }
}
