//! Finds out whether anything was written in a snapshot, a worktree that was only to be read.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use super::SnapshotWorktree;
use crate::removal::check::in_progress;
use crate::removal::{RegenerableNames, nested, pins};
use crate::{GitError, GitLocation, Repository, links, parse};

/// Describes in a few words what was written; `None` means certainly nothing. Ignored folders that
/// tools make again (`regenerable`) do not count.
pub(super) async fn find_written(
    repo: &Repository,
    reading: &SnapshotWorktree,
    regenerable: &RegenerableNames,
) -> Result<Option<String>, GitError> {
    let failed = |error: io::Error| GitError::unreadable_output("worktree", error.to_string());
    if let Some(what) = in_progress(&reading.entry) {
        return Ok(Some(format!("a {what} that has not ended")));
    }
    if has_own_commits(repo, reading).await? {
        return Ok(Some("commits that no branch has".to_owned()));
    }
    if !path_exists(&reading.path).map_err(failed)? {
        return Ok(None);
    }
    let entry = reading.entry.canonicalize().map_err(failed)?;
    if links::entry_of(&reading.path, &repo.common_dir).map_err(failed)? != Some(entry) {
        return Ok(Some("another `.git`".to_owned()));
    }
    let (path, names) = (reading.path.clone(), regenerable.clone());
    let walking = tokio::task::spawn_blocking(move || nested::walk_worktree(&path, &names)).await;
    let walk = walking.map_err(|error| GitError::unreadable_output("worktree", error.to_string()))?;
    if let Some((folder, why)) = walk.unreadable {
        return Err(GitError::unreadable_output("worktree", format!("{}: {why}", folder.display())));
    }
    // Git is not run there: it would do what that repository's configuration says.
    if let Some(inside) = walk.repositories.first() {
        return Ok(Some(format!("a repository at {}", inside.display())));
    }
    let place = snapshot_location(repo, reading);
    let flags = ["--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignore-submodules=none"];
    let status = repo.git().new_command(place, "status").args(flags).inspecting_worktree().run().await?;
    let counts = parse::parse_status(&status.stdout)?.counts;
    match counts.staged + counts.unstaged + counts.conflicts + counts.submodules + counts.untracked {
        0 => {}
        1 => return Ok(Some("1 new or changed file".to_owned())),
        count => return Ok(Some(format!("{count} new or changed files"))),
    }
    let listed =
        repo.git().new_command(place, "ls-files").args(["-v", "-s", "-z"]).inspecting_index().run().await?.stdout;
    for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        if let Some(what) = behind_gits_back(&reading.path, line)? {
            return Ok(Some(what));
        }
    }
    let ignored = repo.git().new_command(place, "ls-files").args(["-z", "--others", "--ignored", "--exclude-standard"]);
    let ignored = ignored.inspecting_worktree().run().await?.stdout;
    let files = ignored.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(parse::path_from_bytes);
    let folders: Vec<_> = walk.regenerable.iter().filter(|folder| regenerable.includes_folder(folder)).collect();
    let count = files.filter(|file| !folders.iter().any(|folder| file.starts_with(&folder.path))).count();
    Ok((count > 0).then(|| if count == 1 { "1 ignored file".to_owned() } else { format!("{count} ignored files") }))
}

fn snapshot_location<'a>(repo: &'a Repository, reading: &'a SnapshotWorktree) -> GitLocation<'a> {
    GitLocation::Worktree { work_tree: &reading.path, git_dir: &reading.entry, common_dir: &repo.common_dir }
}

fn path_exists(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Finds a change to one file of the index that `status` does not report: `<tag> <mode> <id>
/// <stage>\t<path>`.
fn behind_gits_back(worktree: &Path, line: &[u8]) -> Result<Option<String>, GitError> {
    let unreadable = || GitError::unreadable_output("ls-files", parse::text_excerpt(line));
    let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(unreadable)?;
    let path = parse::tracked_path(&line[tab + 1..])?;
    let whole = worktree.join(&path);
    // Git was told not to look at it. A file that a sparse checkout omits is not hidden.
    let hidden = line[0].is_ascii_lowercase() || (line[0] == b'S' && whole.symlink_metadata().is_ok());
    if hidden {
        return Ok(Some(format!("{}, which is hidden from git", path.display())));
    }
    // Git does not look into the folder of a submodule that is not initialised.
    let submodule = line[..tab].starts_with(b"H 160000 ");
    let holds = submodule && fs::read_dir(&whole).is_ok_and(|mut entries| entries.next().is_some());
    Ok(holds.then(|| format!("files in {}", path.display())))
}

/// Tells whether the entry names commits, in HEAD or in its reflog, that no ref holds.
async fn has_own_commits(repo: &Repository, reading: &SnapshotWorktree) -> Result<bool, GitError> {
    let mut named: BTreeSet<String> = if repo.common_dir.join("reftable").exists() {
        pins::in_reftable(repo, snapshot_location(repo, reading), "HEAD").await?
    } else {
        pins::named_in(&reading.entry).map_err(|error| GitError::unreadable_output("entry", error.to_string()))?
    };
    named.remove(reading.mark.at.as_str());
    if named.is_empty() {
        return Ok(false);
    }
    let questions: String = named.iter().map(|id| format!("{id}\n")).collect();
    let check = repo.new_command("cat-file").arg("--batch-check=%(objectname) %(objecttype)").with_stdin(questions);
    let checked = check.with_env("GIT_NO_LAZY_FETCH", "1").run_to_text().await?;
    let commits: Vec<&str> = checked.lines().filter_map(|line| line.strip_suffix(" commit")).collect();
    if commits.is_empty() {
        return Ok(false);
    }
    // The HEADs of worktrees do not count, since they hold commits only temporarily; this worktree
    // has one too.
    let own = repo.new_command("rev-list").args(["--max-count=1", "--single-worktree"]).args(commits);
    let own = own.args(["--not", "--all"]);
    Ok(!own.arg(reading.mark.at.as_str()).with_long_timeout().run_to_text().await?.is_empty())
}
