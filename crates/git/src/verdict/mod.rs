//! Is the work on a branch in its base?
//!
//! For any number of branches in a constant number of git processes: one lists the refs, two give
//! the part of the history that lies between the branches and their bases ([`graph`]), one compares
//! their files ([`paths`]), one tries the merges that are still open ([`trial`]), and what neither proves
//! is looked for by its patch ([`patch`]). Only what is proven is called merged:
//!
//! * no commit of its own, ever, or none since it was in the base: **fresh**, however often it was brought
//!   up to date;
//! * own commits whose sum is nothing: **no changes**;
//! * the base contains the commit, has the same files, or a merge would not change it;
//! * one commit of the base is the whole branch's patch, no later one takes it back, and merging it again
//!   would bring nothing back that is gone from the base, but for the odd line of a large patch.

mod graph;
mod hunks;
mod patch;
mod paths;
mod reflog;
mod trial;

use std::collections::{BTreeMap, BTreeSet};

use graph::{Graph, Place};
use grove_model::{CommitSha, MergeMethod, Moment};
use patch::Unproven;
use paths::Differences;
use serde::{Deserialize, Serialize};

use crate::{GitError, Repository};

pub use reflog::{reflog_tells_of_commits, worked_on};

/// A branch to be judged.
#[derive(Clone, Debug)]
pub struct Subject {
    pub head: CommitSha,
    /// Where it was when its work began.
    pub base_sha: Option<CommitSha>,
    /// The base's tip, and that of the base's upstream if it has one.
    pub bases: Vec<CommitSha>,
    /// Whether somebody ever committed on it.
    pub had_own: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// No commit of its own, ever.
    Fresh {
        behind: u64,
    },
    /// Its own commits take each other back.
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
    /// It could not be found out: not to be taken for merged.
    Unknown {
        why: String,
    },
}

impl Verdict {
    pub fn merged_by(&self) -> Option<MergeMethod> {
        match self {
            Verdict::Merged { by, .. } => Some(*by),
            _ => None,
        }
    }

    pub fn ahead_behind(&self) -> Option<(u64, u64)> {
        match self {
            Verdict::Fresh { behind } => Some((0, *behind)),
            Verdict::NoChanges { ahead, behind }
            | Verdict::Unmerged { ahead, behind }
            | Verdict::Merged { ahead, behind, .. } => Some((*ahead, *behind)),
            Verdict::Unknown { .. } => None,
        }
    }
}

/// What the history alone says of one branch against one base, and what is left to try.
enum Opinion {
    Known(Verdict),
    /// Merged if merging `tried` into the base changes nothing; otherwise `or`.
    Try {
        tried: CommitSha,
        by: MergeMethod,
        or: Verdict,
        fork: Option<CommitSha>,
        place: Place,
        /// The base has a file of it as it was before: a merge would change that.
        lacking: bool,
    },
}

/// The verdicts for all subjects, in their order.
pub async fn verdicts(repo: &Repository, subjects: &[Subject]) -> Result<Vec<Verdict>, GitError> {
    if subjects.is_empty() {
        return Ok(Vec::new());
    }
    let graph = Graph::around(repo, subjects).await?;
    let mut opinions: Vec<Vec<(CommitSha, Opinion)>> = Vec::new();
    for subject in subjects {
        let of_base = |base: &CommitSha| (base.clone(), opinion(&graph, subject, base));
        opinions.push(subject.bases.iter().map(of_base).collect());
    }
    let differences = settle_by_paths(repo, &graph, &mut opinions).await?;
    let wanted: BTreeSet<(String, String)> = opinions
        .iter()
        .flatten()
        .filter_map(|(base, opinion)| match opinion {
            Opinion::Try { tried, lacking: false, .. } => Some((base.to_string(), tried.to_string())),
            _ => None,
        })
        .collect();
    let trial = trial::merges(repo, &wanted).await?;
    for (base, opinion) in opinions.iter_mut().flatten() {
        let Opinion::Try { tried, by, place: Place { ahead, behind }, lacking: false, .. } = opinion else { continue };
        match trial.outcome(base, tried) {
            Some(trial::Outcome::Clean(tree)) if graph.tree(base) == Some(tree) => {
                *opinion = Opinion::Known(Verdict::Merged { by: *by, ahead: *ahead, behind: *behind });
            }
            Some(trial::Outcome::Clean(_) | trial::Outcome::Conflict(_)) => {}
            Some(trial::Outcome::Refused) | None => {
                *opinion = Opinion::Known(Verdict::Unknown { why: "git could not try to merge it".to_owned() });
            }
        }
    }
    // Wherever the merge is not proof: the patch may be.
    let unproven = opinions.iter().flatten().filter_map(|(base, opinion)| match opinion {
        Opinion::Try { tried: head, by: MergeMethod::MergeTree, fork: Some(fork), .. } => {
            Some(Unproven { fork: fork.clone(), head: head.clone(), base: base.clone() })
        }
        _ => None,
    });
    let squashed = patch::squashed(repo, &graph, &differences, &unproven.collect::<Vec<_>>()).await?;
    let settle = |(base, opinion): (CommitSha, Opinion)| match opinion {
        Opinion::Known(verdict) => verdict,
        Opinion::Try { tried: head, or, place: Place { ahead, behind }, .. } => {
            if squashed.contains(&(head, base)) {
                Verdict::Merged { by: MergeMethod::PatchId, ahead, behind }
            } else {
                or
            }
        }
    };
    let mut found = Vec::new();
    for (subject, opinions) in subjects.iter().zip(opinions) {
        let all: Vec<Verdict> = opinions.into_iter().map(settle).collect();
        found.push(strongest(all, subject));
    }
    Ok(found)
}

/// Decides what the changed files alone can decide. Gives the files that each branch changed.
async fn settle_by_paths(
    repo: &Repository,
    graph: &Graph,
    opinions: &mut [Vec<(CommitSha, Opinion)>],
) -> Result<Differences, GitError> {
    let trees = |base: &CommitSha, opinion: &Opinion| match opinion {
        Opinion::Try { tried, by: MergeMethod::MergeTree, fork: Some(fork), .. } => {
            let of = |id: &CommitSha| graph.tree(id).map(str::to_owned);
            Some((of(fork)?, of(tried)?, of(base)?))
        }
        _ => None,
    };
    let all = opinions.iter().flatten().filter_map(|(base, opinion)| trees(base, opinion));
    let pairs: BTreeSet<paths::Pair> =
        all.flat_map(|(fork, head, base)| [(fork, head.clone()), (head, base)]).collect();
    let found = paths::differences(repo, &pairs).await?;
    for (base, opinion) in opinions.iter_mut().flatten() {
        let Some((fork, head, of_base)) = trees(base, opinion) else { continue };
        let Opinion::Try { by, place, lacking, .. } = opinion else { continue };
        let Place { ahead, behind } = *place;
        match paths::said(&found, &fork, &head, &of_base) {
            paths::Said::Merged => *opinion = Opinion::Known(Verdict::Merged { by: *by, ahead, behind }),
            paths::Said::Unmerged => *lacking = true,
            paths::Said::Unclear => {}
        }
    }
    Ok(found)
}

/// Merged into either base is merged; otherwise what the recorded base says.
fn strongest(all: Vec<Verdict>, subject: &Subject) -> Verdict {
    if subject.bases.is_empty() {
        return Verdict::Unknown { why: "its base is not there any more".to_owned() };
    }
    let merged = all.iter().find(|verdict| verdict.merged_by().is_some()).cloned();
    merged
        .or_else(|| all.into_iter().next())
        .unwrap_or_else(|| Verdict::Unknown { why: "nothing is known of it".to_owned() })
}

fn opinion(graph: &Graph, subject: &Subject, base: &CommitSha) -> Opinion {
    let head = &subject.head;
    let unknown = |why: &str| Opinion::Known(Verdict::Unknown { why: why.to_owned() });
    let Some(between) = graph.between(head, base) else { return unknown("its history cannot be read") };
    let Place { ahead, behind } = between.place;
    // However it came to be there: nothing on it is its own, or it was in the base before the work began.
    let was_contained = subject.base_sha.as_ref().is_some_and(|began| graph.contains(began, head));
    if was_contained || (ahead == 0 && !subject.had_own) {
        return Opinion::Known(Verdict::Fresh { behind });
    }
    let (Some(head_tree), Some(base_tree)) = (graph.tree(head), graph.tree(base)) else {
        return unknown("its history cannot be read");
    };
    if ahead == 0 {
        // Contained. What it did since it began may still be nothing.
        let began = subject.base_sha.as_ref().and_then(|sha| graph.tree(sha));
        return Opinion::Known(if began == Some(head_tree) {
            Verdict::NoChanges { ahead, behind }
        } else {
            Verdict::Merged { by: MergeMethod::Ancestor, ahead, behind }
        });
    }
    let unmerged = Verdict::Unmerged { ahead, behind };
    let fork = match &between.forks[..] {
        // No common history.
        [] => return Opinion::Known(unmerged),
        [one] => Some(one.clone()),
        _ => None,
    };
    let place = between.place;
    let nothing_left = fork.as_ref().is_some_and(|fork| graph.tree(fork) == Some(head_tree));
    if nothing_left {
        // It changes nothing now. Was it taken over by the base before the base was merged into it,
        // or did it take itself back? What it was before tells.
        let by = if head_tree == base_tree { MergeMethod::SameTree } else { MergeMethod::EmptyDiff };
        let or = Verdict::NoChanges { ahead, behind };
        return match graph.before_sync(head, base) {
            Some(tried) => Opinion::Try { tried, by, or, fork: None, place, lacking: false },
            None => Opinion::Known(or),
        };
    }
    if head_tree == base_tree {
        return Opinion::Known(Verdict::Merged { by: MergeMethod::SameTree, ahead, behind });
    }
    Opinion::Try { tried: head.clone(), by: MergeMethod::MergeTree, or: unmerged, fork, place, lacking: false }
}

/// The branches of a repository: where each is, and which ref it follows.
#[derive(Clone, Debug, Default)]
pub struct Tips(BTreeMap<String, Tip>);

#[derive(Clone, Debug)]
struct Tip {
    at: CommitSha,
    committed: Option<Moment>,
    upstream: Option<String>,
}

impl Tips {
    /// All branches and remote branches, in one process.
    pub async fn of(repo: &Repository) -> Result<Self, GitError> {
        let listed = repo.command("for-each-ref");
        let format = "--format=%(refname)%00%(objectname)%00%(*objectname)%00%(committerdate:unix)%00%(upstream)";
        let listed = listed.args([format, "refs/heads/", "refs/remotes/", "refs/tags/"]).long().text().await?;
        let mut tips = BTreeMap::new();
        for line in listed.lines() {
            let fields: Vec<&str> = line.split('\0').collect();
            let [name, at, of_tag, committed, upstream] = fields[..] else {
                return Err(GitError::unreadable("for-each-ref", line));
            };
            // A tag with words of its own names its commit in a second field.
            let at = if of_tag.is_empty() { at } else { of_tag };
            let at = at.parse().map_err(|_| GitError::unreadable("for-each-ref", line))?;
            let committed = committed.parse().ok().and_then(Moment::from_unix);
            let upstream = Some(upstream.to_owned()).filter(|name| !name.is_empty());
            tips.insert(name.to_owned(), Tip { at, committed, upstream });
        }
        Ok(Self(tips))
    }

    pub fn get(&self, full_ref: &str) -> Option<&CommitSha> {
        self.0.get(full_ref).map(|tip| &tip.at)
    }

    /// When the last commit of a ref was made.
    pub fn committed(&self, full_ref: &str) -> Option<Moment> {
        self.0.get(full_ref).and_then(|tip| tip.committed)
    }

    /// The remote-tracking ref that a base (`origin/main`, or `main` that follows it) is or follows.
    pub fn tracking_ref_of(&self, base: &str) -> Option<&str> {
        let is_tracking = |name: &&str| name.starts_with("refs/remotes/");
        let (name, tip) = self.find(base)?;
        Some(name).filter(is_tracking).or(tip.upstream.as_deref().filter(is_tracking))
    }

    fn find(&self, base: &str) -> Option<(&str, &Tip)> {
        let folders = ["refs/remotes/", "refs/heads/", "refs/tags/", ""];
        let found = folders.iter().find_map(|folder| self.0.get_key_value(&format!("{folder}{base}")));
        found.map(|(name, tip)| (name.as_str(), tip))
    }

    /// The tips that work based on `name` (`origin/main`, `main`, a tag) may have been merged into:
    /// that ref, and the one that it follows.
    pub fn bases(&self, name: &str) -> Vec<CommitSha> {
        let Some((_, tip)) = self.find(name) else { return Vec::new() };
        let upstream = tip.upstream.as_ref().and_then(|name| self.get(name));
        let mut found = vec![tip.at.clone()];
        found.extend(upstream.filter(|at| **at != tip.at).cloned());
        found
    }
}
