//! Keeping alive what only a worktree's own git directory holds.
//!
//! Once that directory is in the trash, gc does not see it any more. One ref holds all of it: a
//! commit whose parents are every commit that the directory's files name (HEAD, reflogs, an
//! operation in progress), and whose tree lists the objects that only the index holds.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use grove_model::CommitSha;

use crate::durable::read_plain;
use crate::{GitError, Place, Repository};

/// A reflog of millions of lines; anything bigger is refused, not skipped.
const LONGEST: u64 = 1024 * 1024 * 1024;

/// Every object id, whole or cut short, that the text files of an entry name.
pub(crate) fn named_in(entry: &Path) -> io::Result<BTreeSet<String>> {
    let mut named = BTreeSet::new();
    let mut open = vec![entry.to_owned()];
    while let Some(dir) = open.pop() {
        for file in fs::read_dir(&dir)? {
            let file = file?;
            let (name, kind) = (file.file_name(), file.file_type()?);
            let name = name.to_string_lossy();
            // Submodules keep their own objects; the index is asked for by itself.
            let own = dir == entry
                && (name == "modules" || name == "reftable" || name == "index" || name.starts_with("sharedindex."));
            if kind.is_dir() && !own {
                open.push(file.path());
            } else if kind.is_file() && !own {
                // A rebase's list may cut ids short; elsewhere short words are times and names.
                let in_progress = dir.ends_with("rebase-merge") || dir.ends_with("sequencer");
                collect(&read_plain(&file.path(), LONGEST)?, if in_progress { 7 } else { 40 }, &mut named);
            }
        }
    }
    Ok(named)
}

/// Hexadecimal words of at least so many digits.
pub(super) fn collect(text: &[u8], shortest: usize, into: &mut BTreeSet<String>) {
    for word in text.split(|byte| !byte.is_ascii_alphanumeric()) {
        let hex = word.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte));
        let zero = word.iter().all(|byte| *byte == b'0');
        if hex && !zero && (shortest..=64).contains(&word.len()) {
            into.insert(String::from_utf8_lossy(word).into_owned());
        }
    }
}

/// All objects that an index names: files at every stage, trees, what a resolution replaced.
pub(crate) async fn in_index(
    repo: &Repository,
    place: Place<'_>,
    index: Option<&Path>,
) -> Result<Vec<String>, GitError> {
    let flags = ["--objects", "--no-object-names", "--indexed-objects", "--single-worktree", "--missing=allow-any"];
    let mut listed = repo.git().command(place, "rev-list").args(flags).long();
    if let Some(index) = index {
        listed = listed.env("GIT_INDEX_FILE", index);
    }
    Ok(listed.text().await?.lines().map(str::to_owned).collect())
}

/// What refs and reflogs of a worktree name where they are not kept as text.
pub(crate) async fn in_reftable(
    repo: &Repository,
    place: Place<'_>,
    branch: &str,
) -> Result<BTreeSet<String>, GitError> {
    let refs = repo.git().command(place, "for-each-ref");
    let refs = refs.args(["--include-root-refs", "--format=%(objectname)"]).run().await?;
    let mut named = BTreeSet::new();
    collect(&refs.stdout, 40, &mut named);
    for name in ["HEAD", branch] {
        let log = repo.git().command(place, "log").args(["--walk-reflogs", "--format=%H", name, "--"]);
        // 128: there is no such ref.
        collect(&log.long().run_for(&[0, 128]).await?.stdout, 40, &mut named);
    }
    Ok(named)
}

/// Pins everything of `named` and `objects` that exists below `refs/grove/<base>/`. `head` is known
/// to exist. What is named and not there any more cannot be lost.
pub async fn pin(
    repo: &Repository,
    base: &str,
    head: Option<&CommitSha>,
    named: &BTreeSet<String>,
    objects: &[String],
) -> Result<(), GitError> {
    let name = format!("refs/grove/{base}/pin");
    let only_head = objects.is_empty() && named.iter().all(|id| head.is_some_and(|head| head.as_str() == id));
    if only_head {
        if let Some(head) = head {
            repo.command("update-ref").args([&name, head.as_str()]).run().await?;
        }
        return Ok(());
    }
    let all = named.iter().chain(objects).map(String::as_str).chain(head.map(CommitSha::as_str));
    let questions: String = all.map(|id| format!("{id}\n")).collect();
    let check = repo.command("cat-file").args(["--batch-check=%(objectname) %(objecttype)"]);
    let checked = check.env("GIT_NO_LAZY_FETCH", "1").stdin(questions).long().text().await?;
    let (mut commits, mut files, mut tags) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for line in checked.lines() {
        match line.split_once(' ') {
            Some((id, "commit")) => drop(commits.insert(id)),
            Some((id, "blob")) => drop(files.insert(format!("100644 blob {id}\t{id}\n"))),
            Some((id, "tree")) => drop(files.insert(format!("040000 tree {id}\t{id}\n"))),
            Some((id, "tag")) => drop(tags.insert(id)),
            // `<word> missing`, `<word> ambiguous`
            Some((_, "missing" | "ambiguous")) => {}
            _ => return Err(GitError::unreadable("cat-file", line)),
        }
    }
    let tree = repo.command("mktree").stdin(files.into_iter().collect::<String>()).long().text().await?;
    let parents: String = commits.iter().map(|id| format!("parent {id}\n")).collect();
    let who = "Grovekeeper <grove@localhost> 0 +0000";
    let text = format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\nWhat a worktree in the trash holds\n");
    let joint = repo.command("hash-object").args(["-t", "commit", "-w", "--stdin"]).stdin(text).text().await?;
    let tagged = tags.iter().map(|id| format!("update refs/grove/{base}/{id} {id}\n"));
    let updates: String = tagged.chain([format!("update {name} {joint}\n")]).collect();
    repo.command("update-ref").arg("--stdin").stdin(updates).run().await?;
    Ok(())
}

/// Takes all pins below `refs/grove/<base>/` away.
pub async fn unpin(repo: &Repository, base: &str) -> Result<(), GitError> {
    let listed = repo.command("for-each-ref").args(["--format=delete %(refname)", &format!("refs/grove/{base}/")]);
    let deletions = listed.text().await?;
    if !deletions.is_empty() {
        repo.command("update-ref").args(["--stdin"]).stdin(format!("{deletions}\n")).run().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_every_kind_of_list() {
        let id = "ab".repeat(20);
        let text =
            format!("{} {id} A <a@b> 1 +0000\tcommit: x\npick 1234567 # words\nref: refs/heads/cafe\n", "0".repeat(40));
        let found = |shortest| {
            let mut found = BTreeSet::new();
            collect(text.as_bytes(), shortest, &mut found);
            found.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(found(7), ["1234567".to_owned(), id.clone()]);
        assert_eq!(found(40), [id]);
    }
}
