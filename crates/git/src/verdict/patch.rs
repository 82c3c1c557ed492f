//! A squash that cannot be merged again: found by its patch.

use std::collections::{BTreeMap, BTreeSet};

use grove_model::CommitSha;

use crate::{GitError, Repository};

/// Of (fork, head, base): those whose whole patch one commit of the base is, and which was not taken
/// back by a later one. Gives (head, base).
pub(super) async fn squashed(
    repo: &Repository,
    conflicts: &[(CommitSha, CommitSha, CommitSha)],
) -> Result<BTreeSet<(CommitSha, CommitSha)>, GitError> {
    let mut found = BTreeSet::new();
    for (fork, head, base) in conflicts {
        let forward = patch_of(repo, fork, head).await?;
        let Some(wanted) = ids(repo, forward).await?.into_values().next() else { continue };
        let backward = patch_of(repo, head, fork).await?;
        let reverse = ids(repo, backward).await?.into_values().next();
        // Only commits that touch the same files can be it.
        let names = repo.command("diff-tree").args(["-r", "--name-only", "-z", "--no-renames"]);
        let names = names.args([fork.as_str(), head.as_str()]).long().run().await?.stdout;
        let mut paths = names.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(crate::parse::path);
        let Some(first) = paths.next() else { continue };
        let log = repo.command("log").args(["-p", "--no-merges", "--full-diff", "--no-renames", "--reverse"]);
        let log = log.args(["--no-color", "--no-ext-diff", "--no-textconv", "--format=commit %H", "--end-of-options"]);
        let log = log.arg(format!("{fork}..{base}")).arg("--").arg(literal(&first)).long().run().await?.stdout;
        let order: Vec<String> = String::from_utf8_lossy(&log)
            .lines()
            .filter_map(|line| {
                line.strip_prefix("commit ").filter(|id| id.parse::<CommitSha>().is_ok()).map(str::to_owned)
            })
            .collect();
        let of_base = ids(repo, log).await?;
        let last = order.iter().rev().find_map(|commit| {
            let id = of_base.get(commit)?;
            if *id == wanted { Some(true) } else { (Some(id) == reverse.as_ref()).then_some(false) }
        });
        if last == Some(true) {
            found.insert((head.clone(), base.clone()));
        }
    }
    Ok(found)
}

fn literal(path: &std::path::Path) -> std::ffi::OsString {
    let mut spec = std::ffi::OsString::from(":(literal)");
    spec.push(path);
    spec
}

async fn patch_of(repo: &Repository, from: &CommitSha, to: &CommitSha) -> Result<Vec<u8>, GitError> {
    let diff = repo.command("diff-tree").args(["-p", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"]);
    let patch = diff.args([from.as_str(), to.as_str()]).long().run().await?.stdout;
    Ok([format!("commit {to}\n").as_bytes(), &patch].concat())
}

/// The id of each patch, by the commit that is named before it. As it is: a change that differs in
/// spaces alone is another change.
async fn ids(repo: &Repository, patches: Vec<u8>) -> Result<BTreeMap<String, String>, GitError> {
    let listed = repo.command("patch-id").arg("--verbatim").stdin(patches).long().text().await?;
    Ok(listed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(id, commit)| (commit.to_owned(), id.to_owned()))
        .collect())
}
