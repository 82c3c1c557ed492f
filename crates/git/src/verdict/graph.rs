//! Holds the part of the history between branches and their bases in memory.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use grove_model::CommitSha;

use super::VerdictSubject;
use crate::{GitError, Repository};

/// The distance between a branch and a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BranchDistance {
    pub ahead: u64,
    pub behind: u64,
}

pub(super) struct CommitComparison {
    pub place: BranchDistance,
    /// The best common ancestors; several after criss-cross merges, none without common history.
    pub forks: Vec<CommitSha>,
}

struct GraphCommit {
    tree: String,
    parents: Vec<u32>,
    /// A parent lies outside of the part that was read.
    cut: bool,
}

/// Commits by number; each is read once.
pub(super) struct CommitGraph {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
    commits: Vec<Option<GraphCommit>>,
}

impl CommitGraph {
    /// Reads everything reachable from the heads and bases, down to their common start.
    pub async fn load_around(repo: &Repository, subjects: &[VerdictSubject]) -> Result<Self, GitError> {
        let mut ends: BTreeSet<&str> = BTreeSet::new();
        for subject in subjects {
            ends.insert(subject.head.as_str());
            ends.extend(subject.bases.iter().map(CommitSha::as_str));
            ends.extend(subject.base_sha.as_ref().map(CommitSha::as_str));
        }
        let began: BTreeSet<&str> =
            subjects.iter().filter_map(|s| s.base_sha.as_ref()).map(CommitSha::as_str).collect();
        let complete = subjects.iter().all(|subject| subject.base_sha.is_some());
        let oldest = if complete { common_ancestor(repo, &began).await? } else { None };
        let graph = Self::read_commits(repo, &ends, oldest.as_deref()).await?;
        let Some(oldest) = oldest.and_then(|oldest| oldest.parse().ok()) else { return Ok(graph) };
        // The part that was not read is contained in the oldest commit. Nothing is missing if all of them
        // contain that commit; a branch that began before it, or somewhere else, needs the rest.
        let contains_oldest = |id: &&str| id.parse().is_ok_and(|id| graph.is_reachable(&id, &oldest));
        if ends.iter().all(contains_oldest) { Ok(graph) } else { Self::read_commits(repo, &ends, None).await }
    }

    async fn read_commits(repo: &Repository, ends: &BTreeSet<&str>, oldest: Option<&str>) -> Result<Self, GitError> {
        // The parents of the oldest are excluded; the oldest itself is needed.
        let lines = ends.iter().map(|id| format!("{id}\n")).chain(oldest.map(|id| format!("^{id}^@\n")));
        let listed = repo.new_command("rev-list").args([
            "--stdin",
            "--ignore-missing",
            "--no-commit-header",
            "--format=%H %T %P",
        ]);
        let listed = listed.with_stdin(lines.collect::<String>()).with_long_timeout().run_to_text().await?;
        let mut graph = Self { numbers: HashMap::new(), names: Vec::new(), commits: Vec::new() };
        for line in listed.lines() {
            let mut fields = line.split(' ').filter(|field| !field.is_empty());
            let (Some(id), Some(tree)) = (fields.next(), fields.next()) else {
                return Err(GitError::unreadable_output("rev-list", line));
            };
            let number = graph.number_commit(id);
            let parents = fields.map(|parent| graph.number_commit(parent)).collect();
            graph.commits[number as usize] = Some(GraphCommit { tree: tree.to_owned(), parents, cut: false });
        }
        let known: Vec<bool> = graph.commits.iter().map(Option::is_some).collect();
        for commit in graph.commits.iter_mut().flatten() {
            commit.cut = commit.parents.iter().any(|parent| !known[*parent as usize]);
            commit.parents.retain(|parent| known[*parent as usize]);
        }
        Ok(graph)
    }

    fn number_commit(&mut self, id: &str) -> u32 {
        if let Some(number) = self.numbers.get(id) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(id.to_owned(), number);
        self.names.push(id.to_owned());
        self.commits.push(None);
        number
    }

    fn find_number(&self, id: &CommitSha) -> Option<u32> {
        let number = *self.numbers.get(id.as_str())?;
        self.commits[number as usize].as_ref().map(|_| number)
    }

    fn numbered_commit(&self, number: u32) -> &GraphCommit {
        self.commits[number as usize].as_ref().expect("only commits that were read are visited")
    }

    pub fn tree_of_commit(&self, id: &CommitSha) -> Option<&str> {
        self.find_number(id).map(|number| self.numbered_commit(number).tree.as_str())
    }

    fn commit_sha(&self, number: u32) -> Option<CommitSha> {
        self.names[number as usize].parse().ok()
    }

    /// Returns all commits that are reachable from `from`, itself included.
    fn find_ancestors(&self, from: u32) -> HashSet<u32> {
        let mut seen = HashSet::from([from]);
        let mut open = vec![from];
        while let Some(number) = open.pop() {
            open.extend(self.numbered_commit(number).parents.iter().filter(|parent| seen.insert(**parent)));
        }
        seen
    }

    /// Tells whether one commit is reachable from another.
    pub fn is_reachable(&self, from: &CommitSha, other: &CommitSha) -> bool {
        let (Some(from), Some(other)) = (self.find_number(from), self.find_number(other)) else { return false };
        self.find_ancestors(from).contains(&other)
    }

    pub fn compare_commits(&self, head: &CommitSha, base: &CommitSha) -> Option<CommitComparison> {
        let (head, base) = (self.find_number(head)?, self.find_number(base)?);
        let (of_head, of_base) = (self.find_ancestors(head), self.find_ancestors(base));
        let ahead = of_head.difference(&of_base).count() as u64;
        let behind = of_base.difference(&of_head).count() as u64;
        let common: HashSet<u32> = of_head.intersection(&of_base).copied().collect();
        let forks = self.topmost_commits(&common).into_iter().filter_map(|number| self.commit_sha(number)).collect();
        Some(CommitComparison { place: BranchDistance { ahead, behind }, forks })
    }

    /// Returns the commits from `base` down to `fork`, newest first and without `fork`; `None` if
    /// there is a merge between them.
    pub fn linear_commits(&self, fork: &CommitSha, base: &CommitSha) -> Option<Vec<String>> {
        let (fork, mut at) = (self.find_number(fork)?, self.find_number(base)?);
        let mut line = Vec::new();
        while at != fork {
            line.push(self.names[at as usize].clone());
            match self.numbered_commit(at) {
                GraphCommit { parents, cut: false, .. } if parents.len() == 1 => at = parents[0],
                _ => return None,
            }
        }
        Some(line)
    }

    /// Returns the commits that `base` contains and `fork` does not.
    pub fn commits_since(&self, fork: &CommitSha, base: &CommitSha) -> Vec<&str> {
        let (Some(fork), Some(base)) = (self.find_number(fork), self.find_number(base)) else { return Vec::new() };
        let of_fork = self.find_ancestors(fork);
        let new = self.find_ancestors(base).into_iter().filter(|number| !of_fork.contains(number));
        new.map(|number| self.names[number as usize].as_str()).collect()
    }

    /// Returns the commits of a downward-closed set that no other commit of it reaches.
    fn topmost_commits(&self, set: &HashSet<u32>) -> Vec<u32> {
        let below: HashSet<u32> =
            set.iter().flat_map(|number| self.numbered_commit(*number).parents.iter().copied()).collect();
        let mut best: Vec<u32> = set.difference(&below).copied().collect();
        best.sort_unstable();
        best
    }

    /// Returns the branch's commit before the base was last merged into it, if it changed anything
    /// then: along its own line, the first parent of a merge whose other side is the base's.
    pub fn before_sync(&self, head: &CommitSha, base: &CommitSha) -> Option<CommitSha> {
        let (mut at, base) = (self.find_number(head)?, self.find_number(base)?);
        let of_base = self.find_ancestors(base);
        let mut waiting: VecDeque<u32> = VecDeque::new();
        while !of_base.contains(&at) {
            let commit = self.numbered_commit(at);
            let [first, others @ ..] = &commit.parents[..] else { break };
            if others.iter().any(|other| of_base.contains(other)) && !of_base.contains(first) {
                waiting.push_back(*first);
            }
            at = *first;
        }
        waiting
            .into_iter()
            .find(|before| self.changed_something(*before, &of_base))
            .and_then(|number| self.commit_sha(number))
    }

    fn changed_something(&self, head: u32, of_base: &HashSet<u32>) -> bool {
        let common: HashSet<u32> = self.find_ancestors(head).intersection(of_base).copied().collect();
        self.topmost_commits(&common)
            .iter()
            .any(|fork| self.numbered_commit(*fork).tree != self.numbered_commit(head).tree)
    }
}

/// Returns the best common ancestor of all, if there is one.
pub(super) async fn common_ancestor(repo: &Repository, all: &BTreeSet<&str>) -> Result<Option<String>, GitError> {
    if all.is_empty() {
        return Ok(None);
    }
    // 1: none; 128: one of them no longer exists.
    let asked =
        repo.new_command("merge-base").arg("--octopus").args(all).with_long_timeout().run_for(&[0, 1, 128]).await?;
    let text = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    Ok(Some(text).filter(|text| asked.code == 0 && !text.is_empty()))
}
