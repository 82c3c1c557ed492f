//! Decides whether the work on a branch is in its base.
//!
//! Any number of branches takes a constant number of git processes: one lists the refs, two read the part of
//! the history between the branches and their bases ([`graph`]), one compares their files ([`paths`]), one
//! tries the merges that are still undecided ([`trial`]), and branches that none of these prove merged are
//! searched for by their patch ([`patch`], [`hunks`]). [`reflog`] tells whether a branch ever had commits of
//! its own. Only proven work is called merged:
//!
//! * no commit of its own, ever, or none since it was in the base: **fresh**, however often it was brought up
//!   to date;
//! * own commits whose sum is nothing: **no changes**;
//! * the base contains the commit, has the same files, or a merge would not change it;
//! * one commit of the base is the whole branch's patch, no later one reverts it, and merging it again would
//!   bring nothing back that is gone from the base, except for single lines of a large patch.

mod graph;
mod hunks;
mod patch;
mod paths;
mod reflog;
mod trial;

use std::collections::{BTreeMap, BTreeSet};

use graph::{BranchDistance, CommitGraph};
use grove_model::{CommitSha, MergeMethod, Moment};
use patch::UnprovenBranch;
use paths::TreeDifferences;
use serde::{Deserialize, Serialize};

use crate::{GitError, Repository};

pub use reflog::{reflog_tells_of_commits, worked_on};

/// A branch whose verdict is wanted.
#[derive(Clone, Debug)]
pub struct VerdictSubject {
    pub head: CommitSha,
    /// The branch's commit when its work began.
    pub base_sha: Option<CommitSha>,
    /// The base's tip, and that of the base's upstream if it has one.
    pub bases: Vec<CommitSha>,
    /// Set if a commit was ever made on the branch.
    pub had_own: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum MergeVerdict {
    /// No commit of its own, ever.
    Fresh {
        behind: u64,
    },
    /// Its own commits revert each other.
    NoChanges {
        ahead: u64,
        behind: u64,
    },
    Unmerged {
        ahead: u64,
        behind: u64,
    },
    Merged {
        by: MergeMethod,
        ahead: u64,
        behind: u64,
    },
    /// It could not be determined: do not treat it as merged.
    Unknown {
        why: String,
    },
}

impl MergeVerdict {
    pub fn merged_by(&self) -> Option<MergeMethod> {
        match self {
            MergeVerdict::Merged { by, .. } => Some(*by),
            _ => None,
        }
    }

    pub fn ahead_behind(&self) -> Option<(u64, u64)> {
        match self {
            MergeVerdict::Fresh { behind } => Some((0, *behind)),
            MergeVerdict::NoChanges { ahead, behind }
            | MergeVerdict::Unmerged { ahead, behind }
            | MergeVerdict::Merged { ahead, behind, .. } => Some((*ahead, *behind)),
            MergeVerdict::Unknown { .. } => None,
        }
    }
}

/// The verdict of the history alone on one branch against one base, or the check that is left.
enum HistoryVerdict {
    Known(MergeVerdict),
    /// Merged if merging `tried` into the base changes nothing; otherwise the verdict is `or`.
    Try {
        tried: CommitSha,
        by: MergeMethod,
        or: MergeVerdict,
        fork: Option<CommitSha>,
        place: BranchDistance,
        /// The base has one of its files in the version before the branch: a merge would change
        /// that.
        lacking: bool,
    },
}

/// Returns the verdicts for all subjects, in their order.
pub async fn find_verdicts(repo: &Repository, subjects: &[VerdictSubject]) -> Result<Vec<MergeVerdict>, GitError> {
    if subjects.is_empty() {
        return Ok(Vec::new());
    }
    let graph = CommitGraph::load_around(repo, subjects).await?;
    let mut opinions: Vec<Vec<(CommitSha, HistoryVerdict)>> = Vec::new();
    for subject in subjects {
        let of_base = |base: &CommitSha| (base.clone(), judge_history(&graph, subject, base));
        opinions.push(subject.bases.iter().map(of_base).collect());
    }
    let differences = settle_by_paths(repo, &graph, &mut opinions).await?;
    let wanted: BTreeSet<(String, String)> = opinions
        .iter()
        .flatten()
        .filter_map(|(base, opinion)| match opinion {
            HistoryVerdict::Try { tried, lacking: false, .. } => Some((base.to_string(), tried.to_string())),
            _ => None,
        })
        .collect();
    let trial = trial::try_merges(repo, &wanted).await?;
    for (base, opinion) in opinions.iter_mut().flatten() {
        let HistoryVerdict::Try { tried, by, place: BranchDistance { ahead, behind }, lacking: false, .. } = opinion
        else {
            continue;
        };
        match trial.merge_outcome(base, tried) {
            Some(trial::TrialOutcome::Clean(tree)) if graph.tree_of_commit(base) == Some(tree) => {
                *opinion = HistoryVerdict::Known(MergeVerdict::Merged { by: *by, ahead: *ahead, behind: *behind });
            }
            Some(trial::TrialOutcome::Clean(_) | trial::TrialOutcome::Conflict(_)) => {}
            Some(trial::TrialOutcome::Refused) | None => {
                *opinion =
                    HistoryVerdict::Known(MergeVerdict::Unknown { why: "git could not try to merge it".to_owned() });
            }
        }
    }
    // Where the merge proves nothing, the patch may.
    let unproven = opinions.iter().flatten().filter_map(|(base, opinion)| match opinion {
        HistoryVerdict::Try { tried: head, by: MergeMethod::MergeTree, fork: Some(fork), .. } => {
            Some(UnprovenBranch { fork: fork.clone(), head: head.clone(), base: base.clone() })
        }
        _ => None,
    });
    let squashed = patch::find_squashed(repo, &graph, &differences, &unproven.collect::<Vec<_>>()).await?;
    let settle = |(base, opinion): (CommitSha, HistoryVerdict)| match opinion {
        HistoryVerdict::Known(verdict) => verdict,
        HistoryVerdict::Try { tried: head, or, place: BranchDistance { ahead, behind }, .. } => {
            if squashed.contains(&(head, base)) {
                MergeVerdict::Merged { by: MergeMethod::PatchId, ahead, behind }
            } else {
                or
            }
        }
    };
    let mut found = Vec::new();
    for (subject, opinions) in subjects.iter().zip(opinions) {
        let all: Vec<MergeVerdict> = opinions.into_iter().map(settle).collect();
        found.push(strongest_verdict(all, subject));
    }
    Ok(found)
}

/// Decides the branches that the changed files alone can decide. Returns the files that each branch
/// changed.
async fn settle_by_paths(
    repo: &Repository,
    graph: &CommitGraph,
    opinions: &mut [Vec<(CommitSha, HistoryVerdict)>],
) -> Result<TreeDifferences, GitError> {
    let trees = |base: &CommitSha, opinion: &HistoryVerdict| match opinion {
        HistoryVerdict::Try { tried, by: MergeMethod::MergeTree, fork: Some(fork), .. } => {
            let of = |id: &CommitSha| graph.tree_of_commit(id).map(str::to_owned);
            Some((of(fork)?, of(tried)?, of(base)?))
        }
        _ => None,
    };
    let all = opinions.iter().flatten().filter_map(|(base, opinion)| trees(base, opinion));
    let pairs: BTreeSet<paths::TreePair> =
        all.flat_map(|(fork, head, base)| [(fork, head.clone()), (head, base)]).collect();
    let found = paths::compare_trees(repo, &pairs).await?;
    for (base, opinion) in opinions.iter_mut().flatten() {
        let Some((fork, head, of_base)) = trees(base, opinion) else { continue };
        let HistoryVerdict::Try { by, place, lacking, .. } = opinion else { continue };
        let BranchDistance { ahead, behind } = *place;
        match paths::judge_by_paths(&found, &fork, &head, &of_base) {
            paths::PathVerdict::Merged => {
                *opinion = HistoryVerdict::Known(MergeVerdict::Merged { by: *by, ahead, behind })
            }
            paths::PathVerdict::Unmerged => *lacking = true,
            paths::PathVerdict::Unclear => {}
        }
    }
    Ok(found)
}

/// Combines the verdicts: merged into either base is merged; otherwise the recorded base's verdict
/// counts.
fn strongest_verdict(all: Vec<MergeVerdict>, subject: &VerdictSubject) -> MergeVerdict {
    if subject.bases.is_empty() {
        return MergeVerdict::Unknown { why: "its base is not there any more".to_owned() };
    }
    let merged = all.iter().find(|verdict| verdict.merged_by().is_some()).cloned();
    merged
        .or_else(|| all.into_iter().next())
        .unwrap_or_else(|| MergeVerdict::Unknown { why: "nothing is known of it".to_owned() })
}

fn judge_history(graph: &CommitGraph, subject: &VerdictSubject, base: &CommitSha) -> HistoryVerdict {
    let head = &subject.head;
    let unknown = |why: &str| HistoryVerdict::Known(MergeVerdict::Unknown { why: why.to_owned() });
    let Some(between) = graph.compare_commits(head, base) else { return unknown("its history cannot be read") };
    let BranchDistance { ahead, behind } = between.place;
    // However it got there: nothing on it is its own, or it was in the base before the work began.
    let was_contained = subject.base_sha.as_ref().is_some_and(|began| graph.is_reachable(began, head));
    if was_contained || (ahead == 0 && !subject.had_own) {
        return HistoryVerdict::Known(MergeVerdict::Fresh { behind });
    }
    let (Some(head_tree), Some(base_tree)) = (graph.tree_of_commit(head), graph.tree_of_commit(base)) else {
        return unknown("its history cannot be read");
    };
    if ahead == 0 {
        // The base contains it. Its changes since it began may still add up to nothing.
        let began = subject.base_sha.as_ref().and_then(|sha| graph.tree_of_commit(sha));
        return HistoryVerdict::Known(if began == Some(head_tree) {
            MergeVerdict::NoChanges { ahead, behind }
        } else {
            MergeVerdict::Merged { by: MergeMethod::Ancestor, ahead, behind }
        });
    }
    let unmerged = MergeVerdict::Unmerged { ahead, behind };
    let fork = match &between.forks[..] {
        // No common history.
        [] => return HistoryVerdict::Known(unmerged),
        [one] => Some(one.clone()),
        _ => None,
    };
    let place = between.place;
    let nothing_left = fork.as_ref().is_some_and(|fork| graph.tree_of_commit(fork) == Some(head_tree));
    if nothing_left {
        // It changes nothing now. Either the base took its changes over before the base was merged
        // into it, or it reverted itself. Its state before that merge tells which.
        let by = if head_tree == base_tree { MergeMethod::SameTree } else { MergeMethod::EmptyDiff };
        let or = MergeVerdict::NoChanges { ahead, behind };
        return match graph.before_sync(head, base) {
            Some(tried) => HistoryVerdict::Try { tried, by, or, fork: None, place, lacking: false },
            None => HistoryVerdict::Known(or),
        };
    }
    if head_tree == base_tree {
        return HistoryVerdict::Known(MergeVerdict::Merged { by: MergeMethod::SameTree, ahead, behind });
    }
    HistoryVerdict::Try { tried: head.clone(), by: MergeMethod::MergeTree, or: unmerged, fork, place, lacking: false }
}

/// The branches of a repository: the commit of each, and the ref that it follows.
#[derive(Clone, Debug, Default)]
pub struct BranchTips(BTreeMap<String, BranchTip>);

#[derive(Clone, Debug)]
struct BranchTip {
    at: CommitSha,
    committed: Option<Moment>,
    upstream: Option<String>,
}

impl BranchTips {
    /// Reads all branches and remote branches, in one process.
    pub async fn load_tips(repo: &Repository) -> Result<Self, GitError> {
        let listed = repo.new_command("for-each-ref");
        let format = "--format=%(refname)%00%(objectname)%00%(*objectname)%00%(committerdate:unix)%00%(upstream)";
        let listed = listed
            .args([format, "refs/heads/", "refs/remotes/", "refs/tags/"])
            .with_long_timeout()
            .run_to_text()
            .await?;
        let mut tips = BTreeMap::new();
        for line in listed.lines() {
            let fields: Vec<&str> = line.split('\0').collect();
            let [name, at, of_tag, committed, upstream] = fields[..] else {
                return Err(GitError::unreadable_output("for-each-ref", line));
            };
            // An annotated tag names its commit in a second field.
            let at = if of_tag.is_empty() { at } else { of_tag };
            let at = at.parse().map_err(|_| GitError::unreadable_output("for-each-ref", line))?;
            let committed = committed.parse().ok().and_then(Moment::from_unix);
            let upstream = Some(upstream.to_owned()).filter(|name| !name.is_empty());
            tips.insert(name.to_owned(), BranchTip { at, committed, upstream });
        }
        Ok(Self(tips))
    }

    pub fn commit_at(&self, full_ref: &str) -> Option<&CommitSha> {
        self.0.get(full_ref).map(|tip| &tip.at)
    }

    /// Returns the time of the last commit of a ref.
    pub fn committed_at(&self, full_ref: &str) -> Option<Moment> {
        self.0.get(full_ref).and_then(|tip| tip.committed)
    }

    /// Returns the remote-tracking ref that a base (`origin/main`, or `main` that follows it) is or follows.
    pub fn tracking_ref_of(&self, base: &str) -> Option<&str> {
        let is_tracking = |name: &&str| name.starts_with("refs/remotes/");
        let (name, tip) = self.find_tip(base)?;
        Some(name).filter(is_tracking).or(tip.upstream.as_deref().filter(is_tracking))
    }

    fn find_tip(&self, base: &str) -> Option<(&str, &BranchTip)> {
        let folders = ["refs/remotes/", "refs/heads/", "refs/tags/", ""];
        let found = folders.iter().find_map(|folder| self.0.get_key_value(&format!("{folder}{base}")));
        found.map(|(name, tip)| (name.as_str(), tip))
    }

    /// Returns the tips that work based on `name` (`origin/main`, `main`, a tag) may have been
    /// merged into: that ref, and the one that it follows.
    pub fn base_tips(&self, name: &str) -> Vec<CommitSha> {
        let Some((_, tip)) = self.find_tip(name) else { return Vec::new() };
        let upstream = tip.upstream.as_ref().and_then(|name| self.commit_at(name));
        let mut found = vec![tip.at.clone()];
        found.extend(upstream.filter(|at| **at != tip.at).cloned());
        found
    }
}
