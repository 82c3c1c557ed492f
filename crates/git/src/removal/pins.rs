//! Pins objects that only a worktree's own git directory holds.
//!
//! Once that directory is in the trash, gc does not see it any more. One ref holds all of it: a
//! commit whose parents are every commit that the directory's files name (HEAD, reflogs, an
//! operation in progress), and whose tree lists the objects that only the index holds.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use grove_model::CommitSha;

use crate::durable::read_plain;
use crate::{GitError, GitLocation, Repository};

/// Enough for a reflog of millions of lines; a bigger file is refused, not skipped.
const MAX_REFLOG_BYTES: u64 = 1024 * 1024 * 1024;

/// Returns every object id, whole or abbreviated, that the text files of an entry name.
pub(crate) fn named_in(entry: &Path) -> io::Result<BTreeSet<String>> {
    let mut named = BTreeSet::new();
    let mut open = vec![entry.to_owned()];
    while let Some(dir) = open.pop() {
        for file in fs::read_dir(&dir)? {
            let file = file?;
            let (name, kind) = (file.file_name(), file.file_type()?);
            let name = name.to_string_lossy();
            // Submodules keep their own objects; the index is read separately.
            let own = dir == entry
                && (name == "modules" || name == "reftable" || name == "index" || name.starts_with("sharedindex."));
            if kind.is_dir() && !own {
                open.push(file.path());
            } else if kind.is_file() && !own {
                // A rebase's list may abbreviate ids; elsewhere short words are times and names.
                let in_progress = dir.ends_with("rebase-merge") || dir.ends_with("sequencer");
                collect_object_ids(
                    &read_plain(&file.path(), MAX_REFLOG_BYTES)?,
                    if in_progress { 7 } else { 40 },
                    &mut named,
                );
            }
        }
    }
    Ok(named)
}

/// Collects hexadecimal words of at least `shortest` digits.
pub(super) fn collect_object_ids(text: &[u8], shortest: usize, into: &mut BTreeSet<String>) {
    for word in text.split(|byte| !byte.is_ascii_alphanumeric()) {
        let hex = word.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte));
        let zero = word.iter().all(|byte| *byte == b'0');
        if hex && !zero && (shortest..=64).contains(&word.len()) {
            into.insert(String::from_utf8_lossy(word).into_owned());
        }
    }
}

/// Returns all objects that an index names: files at every stage, trees, versions that a resolution
/// replaced.
pub(crate) async fn in_index(
    repo: &Repository,
    place: GitLocation<'_>,
    index: Option<&Path>,
) -> Result<Vec<String>, GitError> {
    let flags = ["--objects", "--no-object-names", "--indexed-objects", "--single-worktree", "--missing=allow-any"];
    let mut listed = repo.git().new_command(place, "rev-list").args(flags).with_long_timeout();
    if let Some(index) = index {
        listed = listed.with_env("GIT_INDEX_FILE", index);
    }
    Ok(listed.run_to_text().await?.lines().map(str::to_owned).collect())
}

/// Returns the objects that refs and reflogs of a worktree name where they are not kept as text.
pub(crate) async fn in_reftable(
    repo: &Repository,
    place: GitLocation<'_>,
    branch: &str,
) -> Result<BTreeSet<String>, GitError> {
    let refs = repo.git().new_command(place, "for-each-ref");
    let refs = refs.args(["--include-root-refs", "--format=%(objectname)"]).run().await?;
    let mut named = BTreeSet::new();
    collect_object_ids(&refs.stdout, 40, &mut named);
    for name in ["HEAD", branch] {
        let log = repo.git().new_command(place, "log").args(["--walk-reflogs", "--format=%H", name, "--"]);
        // 128: there is no such ref.
        collect_object_ids(&log.with_long_timeout().run_for(&[0, 128]).await?.stdout, 40, &mut named);
    }
    Ok(named)
}

/// Pins everything of `named` and `objects` that exists below `refs/grove/<base>/`. `head` is known
/// to exist. Named objects that no longer exist cannot be lost.
pub async fn pin_objects(
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
            repo.new_command("update-ref").args([&name, head.as_str()]).run().await?;
        }
        return Ok(());
    }
    let all = named.iter().chain(objects).map(String::as_str).chain(head.map(CommitSha::as_str));
    let questions: String = all.map(|id| format!("{id}\n")).collect();
    let check = repo.new_command("cat-file").args(["--batch-check=%(objectname) %(objecttype)"]);
    let checked =
        check.with_env("GIT_NO_LAZY_FETCH", "1").with_stdin(questions).with_long_timeout().run_to_text().await?;
    let (mut commits, mut files, mut tags) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for line in checked.lines() {
        match line.split_once(' ') {
            Some((id, "commit")) => drop(commits.insert(id)),
            Some((id, "blob")) => drop(files.insert(format!("100644 blob {id}\t{id}\n"))),
            Some((id, "tree")) => drop(files.insert(format!("040000 tree {id}\t{id}\n"))),
            Some((id, "tag")) => drop(tags.insert(id)),
            // Git answers `<word> missing` or `<word> ambiguous`.
            Some((_, "missing" | "ambiguous")) => {}
            _ => return Err(GitError::unreadable_output("cat-file", line)),
        }
    }
    let tree = repo
        .new_command("mktree")
        .with_stdin(files.into_iter().collect::<String>())
        .with_long_timeout()
        .run_to_text()
        .await?;
    let parents: String = commits.iter().map(|id| format!("parent {id}\n")).collect();
    let who = "Grovekeeper <grove@localhost> 0 +0000";
    let text = format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\nWhat a worktree in the trash holds\n");
    let joint =
        repo.new_command("hash-object").args(["-t", "commit", "-w", "--stdin"]).with_stdin(text).run_to_text().await?;
    let tagged = tags.iter().map(|id| format!("update refs/grove/{base}/{id} {id}\n"));
    let updates: String = tagged.chain([format!("update {name} {joint}\n")]).collect();
    repo.new_command("update-ref").arg("--stdin").with_stdin(updates).run().await?;
    Ok(())
}

/// Removes all pins below `refs/grove/<base>/`.
pub async fn remove_pins(repo: &Repository, base: &str) -> Result<(), GitError> {
    let listed = repo.new_command("for-each-ref").args(["--format=delete %(refname)", &format!("refs/grove/{base}/")]);
    let deletions = listed.run_to_text().await?;
    if !deletions.is_empty() {
        repo.new_command("update-ref").args(["--stdin"]).with_stdin(format!("{deletions}\n")).run().await?;
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
            collect_object_ids(text.as_bytes(), shortest, &mut found);
            found.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(found(7), ["1234567".to_owned(), id.clone()]);
        assert_eq!(found(40), [id]);
    }
}
