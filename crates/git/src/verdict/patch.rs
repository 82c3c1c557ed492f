//! Finds squashes: one commit of the base that is a branch's whole patch.
//!
//! Any number of branches takes a constant number of processes: they read the commits of the bases that
//! changed the same files as a branch, their patches and the branches', and, only for a squash that was
//! found, the later patches of the same files. Only a base with merges between the fork and its tip needs one
//! process more for each squash: the side of a merge that a file came from decides which commits count there,
//! and git knows that.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use grove_model::CommitSha;

use super::graph::{CommitGraph, common_ancestor};
use super::hunks::{self, OwnHunks};
use super::paths::TreeDifferences;
use super::trial;
use crate::{GitError, Repository};

/// A branch and a base whose files do not prove that it is merged.
#[derive(Clone, Debug)]
pub(super) struct UnprovenBranch {
    pub fork: CommitSha,
    pub head: CommitSha,
    pub base: CommitSha,
}

/// A commit of the base that is a branch's whole patch.
struct SquashCommit<'a> {
    of: &'a UnprovenBranch,
    commit: CommitSha,
    /// The trees of the fork and of the branch, as `diff-tree` takes them.
    patch: String,
    paths: BTreeSet<&'a str>,
}

/// Finds the branches that one commit of their base is a squash of and that were not reverted since. Returns
/// (head, base) of each.
pub(super) async fn find_squashed(
    repo: &Repository,
    graph: &CommitGraph,
    differences: &TreeDifferences,
    unproven: &[UnprovenBranch],
) -> Result<BTreeSet<(CommitSha, CommitSha)>, GitError> {
    let squashes = find_squashes(repo, graph, differences, unproven).await?;
    let squashes = without_later_reverts(repo, graph, squashes).await?;
    let squashes = without_returning_hunks(repo, graph, squashes).await?;
    Ok(squashes.into_iter().map(|squash| (squash.of.head.clone(), squash.of.base.clone())).collect())
}

async fn find_squashes<'a>(
    repo: &Repository,
    graph: &CommitGraph,
    differences: &'a TreeDifferences,
    unproven: &'a [UnprovenBranch],
) -> Result<Vec<SquashCommit<'a>>, GitError> {
    // A squash changes exactly the files that the branch changed, so any one of them finds it.
    let changed = |branch: &UnprovenBranch| {
        let trees = (graph.tree_of_commit(&branch.fork)?.to_owned(), graph.tree_of_commit(&branch.head)?.to_owned());
        let paths: BTreeSet<&'a str> = differences.get(&trees)?.keys().map(String::as_str).collect();
        let first = paths.iter().copied().find(|path| is_plain(path))?;
        Some((format!("{} {}", trees.0, trees.1), paths, first))
    };
    let branches: Vec<_> = unproven.iter().filter_map(|branch| Some((branch, changed(branch)?))).collect();
    if branches.is_empty() {
        return Ok(Vec::new());
    }
    let forks = branches.iter().map(|(branch, _)| branch.fork.as_str()).collect();
    let bases = branches.iter().map(|(branch, _)| branch.base.as_str()).collect();
    let commits =
        commits_changing(repo, forks, bases, branches.iter().map(|(_, (.., first))| *first).collect()).await?;
    // Compare the files first: most branches end here, without a patch.
    let mut candidates: Vec<(&UnprovenBranch, _, Vec<&str>)> = Vec::new();
    for (branch, (patch, paths, first)) in branches {
        let same = |commit: &&str| commits.get(*commit).is_some_and(|changed| changed.iter().eq(paths.iter()));
        let found: Vec<&str> = graph.commits_since(&branch.fork, &branch.base).into_iter().filter(same).collect();
        if !found.is_empty() {
            candidates.push((branch, (patch, paths, first), found));
        }
    }
    let patches = candidates.iter().flat_map(|(_, (patch, ..), found)| found.iter().copied().chain([patch.as_str()]));
    let ids = patch_ids(repo, &patches.map(str::to_owned).collect()).await?;
    let mut squashes = Vec::new();
    for (branch, (patch, paths, first), found) in candidates {
        let Some(wanted) = ids.get(&patch) else { continue };
        let is_squash = |commit: &str| ids.get(commit) == Some(wanted);
        if !found.iter().any(|commit| is_squash(commit)) {
            continue;
        }
        let newest_first = match graph.linear_commits(&branch.fork, &branch.base) {
            Some(line) => line,
            None => commits_behind(repo, branch, first).await?,
        };
        let newest = newest_first.into_iter().find(|commit| is_squash(commit));
        if let Some(commit) = newest.and_then(|commit| commit.parse().ok()) {
            squashes.push(SquashCommit { of: branch, commit, patch, paths });
        }
    }
    Ok(squashes)
}

/// Drops the squashes that a later commit reverts.
async fn without_later_reverts<'a>(
    repo: &Repository,
    graph: &CommitGraph,
    squashes: Vec<SquashCommit<'a>>,
) -> Result<Vec<SquashCommit<'a>>, GitError> {
    if squashes.is_empty() {
        return Ok(squashes);
    }
    let began = squashes.iter().map(|squash| squash.commit.as_str()).collect();
    let bases = squashes.iter().map(|squash| squash.of.base.as_str()).collect();
    let paths: BTreeSet<&str> = squashes.iter().flat_map(|squash| squash.paths.iter().copied()).collect();
    let later = commits_changing(repo, began, bases, paths).await?;
    let names = later.into_keys().chain(squashes.iter().map(|squash| squash.patch.clone())).collect();
    let patches = hunks::read_patches(repo.new_command("diff-tree"), &names, 0).await?;
    let is_whole = |squash: &SquashCommit<'a>| {
        let Some(own) = patches.get(&squash.patch).map(|own| OwnHunks::new(own)) else { return false };
        let later = graph.commits_since(&squash.commit, &squash.of.base);
        !later.iter().filter_map(|commit| patches.get(*commit)).any(|patch| own.are_reversed_by(patch))
    };
    Ok(squashes.into_iter().filter(is_whole).collect())
}

/// Drops the squashes for which merging the branch again would bring something back, in however
/// many steps it was removed.
async fn without_returning_hunks<'a>(
    repo: &Repository,
    graph: &CommitGraph,
    squashes: Vec<SquashCommit<'a>>,
) -> Result<Vec<SquashCommit<'a>>, GitError> {
    let pairs = squashes.iter().map(|squash| (squash.of.base.to_string(), squash.of.head.to_string())).collect();
    let trial = trial::try_merges(repo, &pairs).await?;
    let change = |squash: &SquashCommit<'a>| {
        let merged = trial.merge_outcome(&squash.of.base, &squash.of.head)?.result_tree()?;
        Some(format!("{} {merged}", graph.tree_of_commit(&squash.of.base)?))
    };
    let names = squashes.iter().flat_map(|squash| change(squash).into_iter().chain([squash.patch.clone()])).collect();
    // With whole files: the base's current contents tell what is gone from it.
    let patches =
        hunks::read_patches(trial.reading_results(repo.new_command("diff-tree")), &names, u32::MAX >> 1).await?;
    let is_whole = |squash: &SquashCommit<'a>| {
        let (Some(change), Some(own)) = (change(squash), patches.get(&squash.patch)) else { return false };
        !patches.get(&change).is_some_and(|merge| OwnHunks::new(own).come_back_by(merge))
    };
    Ok(squashes.into_iter().filter(is_whole).collect())
}

/// Returns the commits of all bases since all of `began` that changed one of these files, each with all files
/// that it changed.
async fn commits_changing(
    repo: &Repository,
    began: BTreeSet<&str>,
    bases: BTreeSet<&str>,
    paths: BTreeSet<&str>,
) -> Result<BTreeMap<String, BTreeSet<String>>, GitError> {
    let oldest = common_ancestor(repo, &began).await?;
    let revisions = bases.into_iter().map(str::to_owned).chain(oldest.map(|id| format!("^{id}")));
    let paths = paths.into_iter().filter(|path| is_plain(path)).map(|path| format!(":(literal){path}"));
    let lines: String = revisions.chain(["--".to_owned()]).chain(paths).map(|line| line + "\n").collect();
    // Of every side of a merge: which of them count is decided for each branch separately.
    let flags = ["--stdin", "--full-history", "--no-merges", "--full-diff", "--no-show-signature", "--format=%H"];
    let listed = repo.new_command("log").args(flags).args(["--raw", "--no-abbrev", "--no-renames"]).with_stdin(lines);
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut current = None;
    for line in
        String::from_utf8_lossy(&listed.with_long_timeout().run().await?.stdout).lines().filter(|line| !line.is_empty())
    {
        match line.strip_prefix(':') {
            None => current = Some(found.entry(line.to_owned()).or_default()),
            Some(change) => {
                let unreadable = || GitError::unreadable_output("log", line);
                let (_, path) = change.split_once('\t').ok_or_else(unreadable)?;
                current.as_mut().ok_or_else(unreadable)?.insert(path.to_owned());
            }
        }
    }
    Ok(found)
}

/// Returns the commits that gave a file its contents in the base, newest first.
async fn commits_behind(repo: &Repository, branch: &UnprovenBranch, path: &str) -> Result<Vec<String>, GitError> {
    let listed = repo.new_command("rev-list").args(["--no-merges", "--topo-order"]);
    let listed = listed.arg(format!("{}..{}", branch.fork, branch.base)).arg("--").arg(format!(":(literal){path}"));
    Ok(listed.with_long_timeout().run_to_text().await?.lines().map(str::to_owned).collect())
}

/// Tells whether git prints a path unquoted, so that it can be passed back to git.
fn is_plain(path: &str) -> bool {
    !path.starts_with('"') && !path.contains(char::REPLACEMENT_CHARACTER)
}

/// Returns the id of each patch that is not empty: of a commit, or between two trees.
async fn patch_ids(repo: &Repository, wanted: &BTreeSet<String>) -> Result<HashMap<String, String>, GitError> {
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let patches = hunks::diff_tree(repo.new_command("diff-tree"), wanted, 3).await?;
    // `patch-id` separates patches by the commit line before each, and does not support pairs of trees: each
    // gets a number that looks like a commit. No line of a patch looks like that line.
    let width = wanted.iter().map(|what| what.split(' ').next().unwrap_or_default().len()).max().unwrap_or_default();
    let names: Vec<&String> = wanted.iter().collect();
    let numbers: HashMap<&[u8], usize> = names.iter().enumerate().map(|(n, name)| (name.as_bytes(), n)).collect();
    let mut numbered = Vec::with_capacity(patches.len());
    for line in patches.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n").and_then(|line| numbers.get(line)) {
            Some(number) => numbered.extend(format!("commit {number:0width$x}\n").into_bytes()),
            None => numbered.extend(line),
        }
    }
    // Verbatim: a change that differs in spaces alone is another change.
    let listed =
        repo.new_command("patch-id").arg("--verbatim").with_stdin(numbered).with_long_timeout().run_to_text().await?;
    let read = |line: &str| {
        let (id, number) = line.split_once(' ')?;
        let name = names.get(usize::from_str_radix(number, 16).ok()?)?;
        Some(((*name).clone(), id.to_owned()))
    };
    listed.lines().map(|line| read(line).ok_or_else(|| GitError::unreadable_output("patch-id", line))).collect()
}
