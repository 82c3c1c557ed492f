//! Squashes: one commit of the base that is a branch's whole patch.
//!
//! For any number of branches in a constant number of processes: the commits of the bases that changed
//! the same files as a branch, their patches and the branches', and, only where a squash was found,
//! the later patches of the same files. Only a base with merges between the fork and its tip needs one
//! process more for each squash: which side of a merge a file came from decides what counts there, and
//! git knows that.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use grove_model::CommitSha;

use super::graph::{Graph, common_ancestor};
use super::hunks::{self, OwnHunks};
use super::paths::Differences;
use super::trial;
use crate::{GitError, Repository};

/// A branch and a base whose files do not prove that it is merged.
#[derive(Clone, Debug)]
pub(super) struct Unproven {
    pub fork: CommitSha,
    pub head: CommitSha,
    pub base: CommitSha,
}

/// A commit of the base that is a branch's whole patch.
struct Squash<'a> {
    of: &'a Unproven,
    commit: CommitSha,
    /// The trees of the fork and of the branch, as `diff-tree` takes them.
    patch: String,
    paths: BTreeSet<&'a str>,
}

/// Finds the branches that one commit of their base is a squash of, and of which nothing was taken back
/// since. Returns (head, base) of each.
pub(super) async fn squashed(
    repo: &Repository,
    graph: &Graph,
    differences: &Differences,
    unproven: &[Unproven],
) -> Result<BTreeSet<(CommitSha, CommitSha)>, GitError> {
    let squashes = find_squashes(repo, graph, differences, unproven).await?;
    let squashes = without_later_reverts(repo, graph, squashes).await?;
    let squashes = without_returning_hunks(repo, graph, squashes).await?;
    Ok(squashes.into_iter().map(|squash| (squash.of.head.clone(), squash.of.base.clone())).collect())
}

async fn find_squashes<'a>(
    repo: &Repository,
    graph: &Graph,
    differences: &'a Differences,
    unproven: &'a [Unproven],
) -> Result<Vec<Squash<'a>>, GitError> {
    // A squash changes just the files that the branch changed, so any one of them finds it.
    let changed = |branch: &Unproven| {
        let trees = (graph.tree(&branch.fork)?.to_owned(), graph.tree(&branch.head)?.to_owned());
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
    // By its files: most branches end here, without a patch.
    let mut candidates: Vec<(&Unproven, _, Vec<&str>)> = Vec::new();
    for (branch, (patch, paths, first)) in branches {
        let same = |commit: &&str| commits.get(*commit).is_some_and(|changed| changed.iter().eq(paths.iter()));
        let found: Vec<&str> = graph.since(&branch.fork, &branch.base).into_iter().filter(same).collect();
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
        let newest_first = match graph.line(&branch.fork, &branch.base) {
            Some(line) => line,
            None => commits_behind(repo, branch, first).await?,
        };
        let newest = newest_first.into_iter().find(|commit| is_squash(commit));
        if let Some(commit) = newest.and_then(|commit| commit.parse().ok()) {
            squashes.push(Squash { of: branch, commit, patch, paths });
        }
    }
    Ok(squashes)
}

/// Drops the squashes that a later commit takes back.
async fn without_later_reverts<'a>(
    repo: &Repository,
    graph: &Graph,
    squashes: Vec<Squash<'a>>,
) -> Result<Vec<Squash<'a>>, GitError> {
    if squashes.is_empty() {
        return Ok(squashes);
    }
    let began = squashes.iter().map(|squash| squash.commit.as_str()).collect();
    let bases = squashes.iter().map(|squash| squash.of.base.as_str()).collect();
    let paths: BTreeSet<&str> = squashes.iter().flat_map(|squash| squash.paths.iter().copied()).collect();
    let later = commits_changing(repo, began, bases, paths).await?;
    let names = later.into_keys().chain(squashes.iter().map(|squash| squash.patch.clone())).collect();
    let patches = hunks::patches(repo.command("diff-tree"), &names, 0).await?;
    let is_whole = |squash: &Squash<'a>| {
        let Some(own) = patches.get(&squash.patch).map(|own| OwnHunks::new(own)) else { return false };
        let later = graph.since(&squash.commit, &squash.of.base);
        !later.iter().filter_map(|commit| patches.get(*commit)).any(|patch| own.are_reversed_by(patch))
    };
    Ok(squashes.into_iter().filter(is_whole).collect())
}

/// Drops the squashes of which merging the branch once more would bring something back, in however
/// many steps it was taken away.
async fn without_returning_hunks<'a>(
    repo: &Repository,
    graph: &Graph,
    squashes: Vec<Squash<'a>>,
) -> Result<Vec<Squash<'a>>, GitError> {
    let pairs = squashes.iter().map(|squash| (squash.of.base.to_string(), squash.of.head.to_string())).collect();
    let trial = trial::merges(repo, &pairs).await?;
    let change = |squash: &Squash<'a>| {
        let merged = trial.outcome(&squash.of.base, &squash.of.head)?.tree()?;
        Some(format!("{} {merged}", graph.tree(&squash.of.base)?))
    };
    let names = squashes.iter().flat_map(|squash| change(squash).into_iter().chain([squash.patch.clone()])).collect();
    // With whole files: what the base has now tells what is gone from it.
    let patches = hunks::patches(trial.reading_results(repo.command("diff-tree")), &names, u32::MAX >> 1).await?;
    let is_whole = |squash: &Squash<'a>| {
        let (Some(change), Some(own)) = (change(squash), patches.get(&squash.patch)) else { return false };
        !patches.get(&change).is_some_and(|merge| OwnHunks::new(own).come_back_by(merge))
    };
    Ok(squashes.into_iter().filter(is_whole).collect())
}

/// The commits of all bases since all of `began` that changed one of these files, each with all that it
/// changed.
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
    // Of every side of a merge: which of them count is decided for each branch by itself.
    let flags = ["--stdin", "--full-history", "--no-merges", "--full-diff", "--no-show-signature", "--format=%H"];
    let listed = repo.command("log").args(flags).args(["--raw", "--no-abbrev", "--no-renames"]).stdin(lines);
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut current = None;
    for line in String::from_utf8_lossy(&listed.long().run().await?.stdout).lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix(':') {
            None => current = Some(found.entry(line.to_owned()).or_default()),
            Some(change) => {
                let unreadable = || GitError::unreadable("log", line);
                let (_, path) = change.split_once('\t').ok_or_else(unreadable)?;
                current.as_mut().ok_or_else(unreadable)?.insert(path.to_owned());
            }
        }
    }
    Ok(found)
}

/// The commits that gave a file what it has in the base, newest first.
async fn commits_behind(repo: &Repository, branch: &Unproven, path: &str) -> Result<Vec<String>, GitError> {
    let listed = repo.command("rev-list").args(["--no-merges", "--topo-order"]);
    let listed = listed.arg(format!("{}..{}", branch.fork, branch.base)).arg("--").arg(format!(":(literal){path}"));
    Ok(listed.long().text().await?.lines().map(str::to_owned).collect())
}

/// Whether git prints a path as it is, so that it can be given back.
fn is_plain(path: &str) -> bool {
    !path.starts_with('"') && !path.contains(char::REPLACEMENT_CHARACTER)
}

/// The id of each patch that is not empty: of a commit, or between two trees.
async fn patch_ids(repo: &Repository, wanted: &BTreeSet<String>) -> Result<HashMap<String, String>, GitError> {
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let patches = hunks::diff_tree(repo.command("diff-tree"), wanted, 3).await?;
    // `patch-id` tells patches apart by the commit before each, and knows nothing of pairs of trees:
    // each gets a number that looks like a commit. No line of a patch is like the line before it.
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
    // As it is: a change that differs in spaces alone is another change.
    let listed = repo.command("patch-id").arg("--verbatim").stdin(numbered).long().text().await?;
    let read = |line: &str| {
        let (id, number) = line.split_once(' ')?;
        let name = names.get(usize::from_str_radix(number, 16).ok()?)?;
        Some(((*name).clone(), id.to_owned()))
    };
    listed.lines().map(|line| read(line).ok_or_else(|| GitError::unreadable("patch-id", line))).collect()
}
