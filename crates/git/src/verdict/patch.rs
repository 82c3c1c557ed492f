//! Squashes that cannot be merged again: found by their patches.
//!
//! For any number of branches in five processes: the files that each changed, where all of them
//! began, the commits of the bases that touch those files, the patches of all of these and of the
//! branches, both ways, and the ids of the patches. Only a base with merges between the fork and its
//! tip needs one more, and only where there is something to be found: which side a file came from
//! decides what counts there, and git knows that.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use grove_model::CommitSha;

use super::graph::{Graph, common_ancestor};
use crate::{GitError, Repository};

/// Two trees.
type Pair = (String, String);

/// Of (fork, head, base): those whose whole patch one commit of the base is, and which was not taken
/// back by a later one. Gives (head, base).
pub(super) async fn squashed(
    repo: &Repository,
    graph: &Graph,
    conflicts: &[(CommitSha, CommitSha, CommitSha)],
) -> Result<BTreeSet<(CommitSha, CommitSha)>, GitError> {
    let mut found = BTreeSet::new();
    if conflicts.is_empty() {
        return Ok(found);
    }
    let pair_of = |fork: &CommitSha, head: &CommitSha| -> Option<Pair> {
        Some((graph.tree(fork)?.to_owned(), graph.tree(head)?.to_owned()))
    };
    let pairs: BTreeSet<Pair> = conflicts.iter().filter_map(|(fork, head, _)| pair_of(fork, head)).collect();
    let paths = first_paths(repo, &pairs).await?;
    let commits = candidates(repo, conflicts, paths.values()).await?;
    let both_ways = pairs.iter().flat_map(|(from, to)| [between(from, to), between(to, from)]);
    let ids = ids(repo, &both_ways.chain(commits).collect()).await?;
    for (fork, head, base) in conflicts {
        let Some((from, to)) = pair_of(fork, head) else { continue };
        let Some(wanted) = ids.get(&between(&from, &to)) else { continue };
        let reverse = ids.get(&between(&to, &from));
        let is_it = |commit: &str| ids.get(commit) == Some(wanted);
        let newest_first = match (graph.line(fork, base), paths.get(&(from, to))) {
            (Some(line), _) => line,
            (None, Some(path)) if graph.since(fork, base).into_iter().any(is_it) => {
                touching(repo, fork, base, path).await?
            }
            (None, _) => continue,
        };
        let last = newest_first.iter().find_map(|commit| {
            let id = ids.get(commit)?;
            if id == wanted { Some(true) } else { (Some(id) == reverse).then_some(false) }
        });
        if last == Some(true) {
            found.insert((head.clone(), base.clone()));
        }
    }
    Ok(found)
}

fn between(from: &str, to: &str) -> String {
    format!("{from} {to}")
}

/// The first file in which the trees of each pair differ.
async fn first_paths(repo: &Repository, pairs: &BTreeSet<Pair>) -> Result<BTreeMap<Pair, PathBuf>, GitError> {
    let lines: String = pairs.iter().map(|(from, to)| format!("{from} {to}\n")).collect();
    let names = repo.command("diff-tree").args(["--stdin", "-r", "--name-only", "-z", "--no-renames"]);
    let output = names.stdin(lines).long().run().await?.stdout;
    let mut found = BTreeMap::new();
    let (mut current, mut rest) = (None, pairs.iter().peekable());
    for mut field in output.split(|byte| *byte == 0) {
        // Names end with NUL, but the line before the names of each pair with a newline.
        while let Some((from, to)) = rest.peek()
            && let Some(behind) = field.strip_prefix(format!("{from} {to}\n").as_bytes())
        {
            (current, field) = (rest.next(), behind);
        }
        if let (Some(pair), false) = (current, field.is_empty()) {
            found.entry(pair.clone()).or_insert_with(|| crate::parse::path(field));
        }
    }
    Ok(found)
}

/// The commits of all bases since all forks that touch one of these files: only they can be it.
async fn candidates(
    repo: &Repository,
    conflicts: &[(CommitSha, CommitSha, CommitSha)],
    paths: impl Iterator<Item = &PathBuf>,
) -> Result<Vec<String>, GitError> {
    let forks: BTreeSet<&str> = conflicts.iter().map(|(fork, ..)| fork.as_str()).collect();
    let bases: BTreeSet<&str> = conflicts.iter().map(|(.., base)| base.as_str()).collect();
    let began = common_ancestor(repo, &forks).await?;
    let lines = bases.into_iter().map(|id| format!("{id}\n")).chain(began.map(|id| format!("^{id}\n")));
    let paths: BTreeSet<OsString> = paths.map(|path| literal(path)).collect();
    // Of every side of a merge: which of them count is decided for each branch by itself.
    let listed = repo.command("rev-list").args(["--stdin", "--full-history", "--no-merges", "--"]).args(paths);
    Ok(listed.stdin(lines.collect::<String>()).long().text().await?.lines().map(str::to_owned).collect())
}

/// The commits between that gave a file what it has in the base, newest first.
async fn touching(repo: &Repository, fork: &CommitSha, base: &CommitSha, path: &Path) -> Result<Vec<String>, GitError> {
    let listed = repo.command("rev-list").arg("--no-merges").arg(format!("{fork}..{base}")).arg("--");
    Ok(listed.arg(literal(path)).long().text().await?.lines().map(str::to_owned).collect())
}

fn literal(path: &Path) -> OsString {
    let mut spec = OsString::from(":(literal)");
    spec.push(path);
    spec
}

/// The id of each patch that is not empty: of a commit, or between two trees.
async fn ids(repo: &Repository, wanted: &BTreeSet<String>) -> Result<HashMap<String, String>, GitError> {
    let lines: String = wanted.iter().map(|what| format!("{what}\n")).collect();
    let flags = ["--stdin", "-p", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"];
    let patches = repo.command("diff-tree").args(flags).stdin(lines).long().run().await?.stdout;
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
