//! Finds every reason against removing a worktree, in one check.

use std::fs;
use std::path::{Path, PathBuf};

use grove_model::{BranchName, CommitSha, GitOperation, Question, RemovalAnswer, short_hash};
use serde::{Deserialize, Serialize};

use super::branch::{self, BranchFate};
use super::nested::{self, NestedFolderKind, WorktreeWalk};
use super::regenerable::{self, RegenerableFolder, RegenerableNames};
use super::trash::{TRASHED_GIT_LINK, TrashedWorktree};
use super::{RemovalError, pins};
use crate::durable::{MAX_SMALL_FILE_BYTES, read_plain};
use crate::parse::{self, WorktreeStatus};
use crate::settled::{FileTime, TemporaryFile, settled_index, stamp_of, temporary_index};
use crate::{GitError, GitLocation, Repository, links};

pub(super) const STATUS_FLAGS: [&str; 5] =
    ["--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=none"];

/// HEAD, index and status at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorktreeFingerprint(String);

impl std::fmt::Display for WorktreeFingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A worktree that may be removed.
#[derive(Clone, Copy, Debug)]
pub struct RemovalSubject<'a> {
    pub path: &'a Path,
    /// Git's entry for it.
    pub entry: &'a Path,
    pub branch: &'a BranchName,
    /// Branches that are kept, whatever they contain.
    pub needed: &'a [&'a str],
    /// Names of folders that tools make again.
    pub regenerable: &'a RegenerableNames,
}

/// The findings for and against a removal at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalFindings {
    /// One answer for every question that git or the disk can answer.
    pub answers: Vec<(Question, RemovalAnswer)>,
    pub fingerprint: WorktreeFingerprint,
    /// The time of the last change to any file; missing if one could not be inspected.
    newest: Option<FileTime>,
}

/// The result of a check before a removal.
#[derive(Clone, Debug)]
pub struct RemovalCheck {
    pub findings: RemovalFindings,
    /// Taken before everything was checked.
    pub stamp: EntryStamp,
    pub branch: BranchFate,
    /// The branch that is checked out, which may differ from `branch`; `None` when HEAD is
    /// detached.
    pub head_branch: Option<String>,
    pub head: Option<CommitSha>,
    /// Set if the index may hold objects that no commit holds.
    pub index_differs: bool,
    /// Submodules and other repositories whose `.git` leads into the entry.
    pub submodules: Vec<PathBuf>,
    /// Ignored folders that tools may have made; the configured names decide.
    pub regenerable: Vec<RegenerableFolder>,
}

impl RemovalCheck {
    fn unknown_status(error: &GitError, fingerprint: WorktreeFingerprint, stamp: EntryStamp) -> Self {
        let asked = [Question::Changes, Question::Untracked, Question::DetachedCommits, Question::Submodules];
        let answers = asked.into_iter().map(|question| (question, RemovalAnswer::unknown_because(error))).collect();
        Self {
            findings: RemovalFindings { answers, fingerprint, newest: None },
            stamp,
            branch: BranchFate::Unknown { why: error.to_string() },
            head_branch: None,
            head: None,
            index_differs: true,
            submodules: Vec::new(),
            regenerable: Vec::new(),
        }
    }
}

/// Answers all questions. "Could not be determined" is an answer too.
pub async fn check_removal(repo: &Repository, subject: RemovalSubject<'_>) -> RemovalCheck {
    let before = entry_stamp(subject.entry);
    let walking = {
        let (path, names) = (subject.path.to_owned(), subject.regenerable.clone());
        tokio::task::spawn_blocking(move || nested::walk_worktree(&path, &names))
    };
    let asking = async {
        let unreadable =
            |error: String| WorktreeWalk { unreadable: Some((PathBuf::new(), error)), ..WorktreeWalk::default() };
        let walk = walking.await.unwrap_or_else(|error| unreadable(error.to_string()));
        let settled = settled_index(&repo.common_dir, subject.entry, walk.newest);
        let submodules = may_recurse(subject, &walk);
        let ask = StatusOptions { settled: settled.as_ref(), submodules };
        let (asked, folders) = tokio::join!(
            ask_status(repo, subject, ask),
            regenerable::ignored_folders(repo, worktree_location(repo, subject), &walk)
        );
        (asked, folders, walk, submodules)
    };
    let ((asked, folders, walk, submodules), hidden) = tokio::join!(asking, hidden_answer(repo, subject));
    let mut look = match asked {
        Ok((status, fingerprint)) => {
            let fate = branch::find_branch_fate(repo, subject, status.branch.as_deref(), status.head.as_ref()).await;
            evaluate_status(repo, subject, &status, fingerprint, before, fate).await
        }
        Err((error, fingerprint)) => RemovalCheck::unknown_status(&error, fingerprint, before),
    };
    look.findings.set_answer(Question::HiddenChanges, hidden);
    look.findings
        .set_answer(Question::InProgress, RemovalAnswer::from_finding(in_progress(subject.entry).map(str::to_owned)));
    look.findings.set_answer(Question::Locked, lock_answer(subject.entry));
    if !submodules {
        let why = "a repository inside it could not be asked safely";
        look.findings.set_answer(Question::Submodules, RemovalAnswer::unknown_because(why));
    }
    look_inside(repo, subject, &walk, &mut look).await;
    look.regenerable = folders.unwrap_or_else(|error| {
        tracing::info!("folders that tools make again are kept like all others: {error}");
        Vec::new()
    });
    look.findings.newest = walk.newest;
    look
}

impl RemovalFindings {
    /// Replaces the answer to a question. The answers stay in the order of the questions.
    pub fn set_answer(&mut self, question: Question, answer: RemovalAnswer) {
        self.answers.retain(|(known, _)| *known != question);
        self.answers.push((question, answer));
        self.answers.sort_by_key(|(question, _)| Question::ALL.iter().position(|known| known == question));
    }
}

/// Checks a hibernating worktree in the trash. Its contents were checked when it was moved there and cannot
/// be checked again: files that git holds were taken out, and nothing inside leads to its repository. Changes
/// since then are checked: to its files, and to the commits that it has.
pub async fn look_in_trash(
    repo: &Repository,
    trashed: &TrashedWorktree,
    needed: &[&str],
) -> Result<RemovalCheck, RemovalError> {
    let (manifest, entry, branch) = (&trashed.manifest, trashed.entry_in_trash(), trashed.branch_name()?);
    let stamp = entry_stamp(&entry);
    let mut findings = match &manifest.findings {
        Some(findings) => {
            let mut findings = findings.clone();
            if let Some(why) = touched_since(&manifest.files, findings.newest).await {
                findings.set_answer(Question::Changes, RemovalAnswer::Unknown(why));
            }
            findings
        }
        None => {
            let why = "an older version put it away; wake it to find out";
            let answers = vec![(Question::Changes, RemovalAnswer::unknown_because(why))];
            RemovalFindings { answers, fingerprint: WorktreeFingerprint(short_hash(&stamp.0, 32)), newest: None }
        }
    };
    if let (None, Some(head)) = (&manifest.head_branch, &manifest.head) {
        findings.set_answer(Question::DetachedCommits, detached_commits(repo, head).await);
    }
    let subject = RemovalSubject {
        path: &manifest.path,
        entry: &entry,
        branch: &branch,
        needed,
        regenerable: &RegenerableNames::default(),
    };
    let fate = match repo.commit_of(&branch.full_ref()).await {
        Err(error) => BranchFate::Unknown { why: error.to_string() },
        Ok(None) => BranchFate::Absent,
        Ok(now) if manifest.head_branch.as_deref() == Some(branch.as_str()) && now != manifest.head => {
            BranchFate::Unknown { why: "it was moved while the worktree hibernated".to_owned() }
        }
        Ok(_) => branch::find_branch_fate(repo, subject, manifest.head_branch.as_deref(), manifest.head.as_ref()).await,
    };
    Ok(RemovalCheck {
        findings,
        stamp,
        branch: fate,
        head_branch: manifest.head_branch.clone(),
        head: manifest.head.clone(),
        // Everything that the index may hold is pinned.
        index_differs: true,
        submodules: manifest.submodules.clone(),
        regenerable: trashed.regenerable_left(),
    })
}

/// Returns the reason why the state of the files is unknown, if they were changed since.
async fn touched_since(files: &Path, newest: Option<FileTime>) -> Option<String> {
    let files = files.to_owned();
    let walk = move || nested::walk_but_for(&files, &RegenerableNames::default(), &[".git", TRASHED_GIT_LINK]);
    let Some(newest) = newest else { return Some("not all of its files could be looked at".to_owned()) };
    match tokio::task::spawn_blocking(walk).await {
        Err(error) => Some(error.to_string()),
        Ok(WorktreeWalk { unreadable: Some((folder, why)), .. }) => Some(format!("{}: {why}", folder.display())),
        Ok(WorktreeWalk { newest: None, .. }) => Some("not all of its files can be looked at".to_owned()),
        Ok(WorktreeWalk { newest: Some(now), .. }) => {
            (now > newest).then(|| "something was written there while it hibernated".to_owned())
        }
    }
}

fn worktree_location<'a>(repo: &'a Repository, subject: RemovalSubject<'a>) -> GitLocation<'a> {
    GitLocation::Worktree { work_tree: subject.path, git_dir: subject.entry, common_dir: &repo.common_dir }
}

/// Stamps of the files that git writes on every commit, staging or switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryStamp(Vec<u8>);

/// Returns the stamps of HEAD and index now: the cheap part of a fingerprint.
pub fn entry_stamp(entry: &Path) -> EntryStamp {
    let mut seen = read_plain(&entry.join("HEAD"), MAX_SMALL_FILE_BYTES).unwrap_or_default();
    seen.extend(stamp_of(&entry.join("index")).unwrap_or_default());
    EntryStamp(seen)
}

/// Options for reading the status.
struct StatusOptions<'a> {
    settled: Option<&'a TemporaryFile>,
    /// Git looks into submodules too, with the settings of their own configuration.
    submodules: bool,
}

/// Tells whether git may look into the repositories inside: an agent may have written their config.
fn may_recurse(subject: RemovalSubject<'_>, walk: &WorktreeWalk) -> bool {
    walk.unreadable.is_none()
        && walk.repositories.iter().all(|below| match nested::kind_of(&subject.path.join(below)) {
            Ok(NestedFolderKind::Repository { git_dir }) => nested::check_harmless(&git_dir).is_ok(),
            Ok(NestedFolderKind::Nothing | NestedFolderKind::Worktree) => true,
            Err(_) => false,
        })
}

async fn ask_status(
    repo: &Repository,
    subject: RemovalSubject<'_>,
    ask: StatusOptions<'_>,
) -> Result<(WorktreeStatus, WorktreeFingerprint), (GitError, WorktreeFingerprint)> {
    let mut seen = entry_stamp(subject.entry).0;
    let mut status =
        repo.git().new_command(worktree_location(repo, subject), "status").args(STATUS_FLAGS).inspecting_worktree();
    if !ask.submodules {
        status = status.arg("--ignore-submodules=all");
    }
    if let Some(index) = ask.settled {
        status = status.with_env("GIT_INDEX_FILE", &index.0);
    }
    let parsed = status.run().await.and_then(|output| {
        seen.extend(&output.stdout);
        parse::parse_status(&output.stdout)
    });
    let fingerprint = WorktreeFingerprint(short_hash(&seen, 32));
    match parsed {
        Ok(status) => Ok((status, fingerprint)),
        Err(error) => Err((error, fingerprint)),
    }
}

/// Formats `1 commit`, `2 commits`; `None` for zero.
fn count_phrase(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        more => Some(format!("{more} {many}")),
    }
}

/// Counts the commits of a detached HEAD that no ref holds.
async fn detached_commits(repo: &Repository, head: &CommitSha) -> RemovalAnswer {
    match branch::own_commits(repo, head, None).await {
        Ok(count) => {
            RemovalAnswer::from_finding(count_phrase(usize::try_from(count).unwrap_or(usize::MAX), "commit", "commits"))
        }
        Err(error) => RemovalAnswer::unknown_because(error),
    }
}

async fn evaluate_status(
    repo: &Repository,
    subject: RemovalSubject<'_>,
    status: &WorktreeStatus,
    fingerprint: WorktreeFingerprint,
    stamp: EntryStamp,
    fate: BranchFate,
) -> RemovalCheck {
    let counts = &status.counts;
    let changes = [
        count_phrase(counts.staged, "staged change", "staged changes"),
        count_phrase(counts.unstaged, "unstaged change", "unstaged changes"),
        count_phrase(counts.conflicts, "conflict", "conflicts"),
    ];
    let changes: Vec<String> = changes.into_iter().flatten().collect();
    let untracked = count_phrase(counts.untracked, "untracked file or folder", "untracked files or folders");
    let submodules = count_phrase(counts.submodules, "changed submodule", "changed submodules");
    let detached = match (&status.branch, &status.head) {
        (None, Some(head)) => detached_commits(repo, head).await,
        _ => RemovalAnswer::No,
    };
    let changed = Some(changes.join(", ")).filter(|text| !text.is_empty());
    let answers = vec![
        (Question::Changes, RemovalAnswer::from_finding(changed)),
        (Question::Untracked, RemovalAnswer::from_finding(untracked)),
        (Question::Submodules, RemovalAnswer::from_finding(submodules)),
        (Question::DetachedCommits, detached),
    ];
    RemovalCheck {
        findings: RemovalFindings { answers, fingerprint, newest: None },
        stamp,
        branch: fate,
        head_branch: status.branch.clone(),
        head: status.head.clone(),
        // Resolved conflicts leave the replaced versions in the index.
        index_differs: status.is_changed() || holds_resolutions(&subject.entry.join("index")),
        submodules: Vec::new(),
        regenerable: Vec::new(),
    }
}

/// Tells whether an index may have the extension that keeps the versions that a resolution
/// replaced.
fn holds_resolutions(index: &Path) -> bool {
    read_plain(index, u64::MAX).is_ok_and(|bytes| bytes.windows(4).any(|window| window == b"REUC"))
}

/// Finds changes to files that git was told not to look at (assume-unchanged, skip-worktree).
async fn hidden_answer(repo: &Repository, subject: RemovalSubject<'_>) -> RemovalAnswer {
    match hidden_changes(repo, subject.path, subject.entry).await {
        Ok(files) if files.is_empty() => RemovalAnswer::No,
        Ok(files) => {
            let shown: Vec<String> = files.iter().take(3).map(|file| file.display().to_string()).collect();
            let more = if files.len() > 3 { format!(" and {} more", files.len() - 3) } else { String::new() };
            RemovalAnswer::Yes(format!("{}{more}", shown.join(", ")))
        }
        Err(error) => RemovalAnswer::unknown_because(error),
    }
}

/// Returns the files of a checkout that were changed although git was told not to look at them.
pub(crate) async fn hidden_changes(
    repo: &Repository,
    work_tree: &Path,
    git_dir: &Path,
) -> Result<Vec<PathBuf>, GitError> {
    let place = GitLocation::Worktree { work_tree, git_dir, common_dir: &repo.common_dir };
    let listed = repo.git().new_command(place, "ls-files").args(["-v", "-z"]).inspecting_index().run().await?.stdout;
    let mut hidden = Vec::new();
    for line in listed.split(|byte| *byte == 0) {
        let (Some(tag), Some(name)) = (line.first(), line.get(2..)) else { continue };
        // `S` and lower case mark hidden files.
        if !tag.is_ascii_lowercase() && *tag != b'S' {
            continue;
        }
        let path = work_tree.join(parse::tracked_path(name)?);
        // A file that a sparse checkout omits is not changed.
        if tag.is_ascii_lowercase() || path.symlink_metadata().is_ok() {
            hidden.push(name);
        }
    }
    let mut paths = hidden.join(&0);
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    paths.push(0);
    // A copy of the index without these flags, beside the real one.
    let failed = |error: std::io::Error| GitError::unreadable_output("index", error.to_string());
    let copy = temporary_index(&repo.common_dir).map_err(failed)?;
    fs::copy(git_dir.join("index"), &copy.0).map_err(failed)?;
    for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
        let unmark = repo.git().new_command(place, "update-index").with_env("GIT_INDEX_FILE", &copy.0);
        unmark.args([flag, "-z", "--stdin"]).with_stdin(paths.clone()).inspecting_worktree().run().await?;
    }
    let changed = repo.git().new_command(place, "diff-files").with_env("GIT_INDEX_FILE", &copy.0);
    let changed =
        changed.args(["--name-only", "-z", "--ignore-submodules=all"]).inspecting_worktree().run().await?.stdout;
    let hidden: Vec<&[u8]> = paths.split(|byte| *byte == 0).collect();
    let changed = changed.split(|byte| *byte == 0).filter(|path| !path.is_empty() && hidden.contains(path));
    Ok(changed.map(parse::path_from_bytes).collect())
}

/// Returns the unfinished operation in a worktree.
pub(crate) fn in_progress(entry: &Path) -> Option<&'static str> {
    let files = [
        ("rebase-merge", "rebase"),
        ("rebase-apply", "rebase or am"),
        ("MERGE_HEAD", "merge"),
        ("CHERRY_PICK_HEAD", "cherry-pick"),
        ("REVERT_HEAD", "revert"),
        ("sequencer", "cherry-pick or revert"),
        ("BISECT_LOG", "bisect"),
        ("index.lock", "git command"),
        ("HEAD.lock", "git command"),
    ];
    files.iter().find(|(name, _)| entry.join(name).symlink_metadata().is_ok()).map(|(_, what)| *what)
}

/// Returns the operation that was begun in a worktree and not finished.
pub fn operation_in(entry: &Path) -> Option<GitOperation> {
    let files = [
        ("rebase-merge", GitOperation::Rebase),
        ("rebase-apply", GitOperation::Rebase),
        ("MERGE_HEAD", GitOperation::Merge),
        ("CHERRY_PICK_HEAD", GitOperation::CherryPick),
        ("REVERT_HEAD", GitOperation::Revert),
        ("BISECT_LOG", GitOperation::Bisect),
    ];
    files.iter().find(|(name, _)| entry.join(name).symlink_metadata().is_ok()).map(|(_, operation)| *operation)
}

/// Tells whether an operation in a worktree returns to a branch when it ends.
pub(crate) fn is_waiting_for(entry: &Path, branch: &BranchName) -> bool {
    let files = [
        ("rebase-merge/head-name", branch.full_ref()),
        ("rebase-merge/update-refs", branch.full_ref()),
        ("rebase-apply/head-name", branch.full_ref()),
        ("BISECT_START", branch.to_string()),
    ];
    files.iter().any(|(file, wanted)| match read_plain(&entry.join(file), MAX_SMALL_FILE_BYTES) {
        Ok(text) => String::from_utf8_lossy(&text).lines().any(|line| line.trim_end() == wanted),
        // A file that cannot be read may name the branch.
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    })
}

fn lock_answer(entry: &Path) -> RemovalAnswer {
    match read_plain(&entry.join("locked"), MAX_SMALL_FILE_BYTES) {
        Ok(reason) => RemovalAnswer::Yes(String::from_utf8_lossy(&reason).trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => RemovalAnswer::No,
        Err(error) => RemovalAnswer::unknown_because(error),
    }
}

/// Checks the worktrees and repositories inside.
async fn look_inside(repo: &Repository, subject: RemovalSubject<'_>, walk: &WorktreeWalk, look: &mut RemovalCheck) {
    let (mut worktrees, mut repositories) = (RemovalAnswer::No, RemovalAnswer::No);
    let note = |answer: &mut RemovalAnswer, new: RemovalAnswer| {
        // The first finding counts; an unknown answer weighs less than a known one.
        if answer.is_no() || (matches!(answer, RemovalAnswer::Unknown(_)) && matches!(new, RemovalAnswer::Yes(_))) {
            *answer = new;
        }
    };
    match links::list_entries(&repo.common_dir) {
        Err(error) => worktrees = RemovalAnswer::unknown_because(error),
        // Also a worktree whose folder is not mounted or missing.
        Ok(entries) => {
            for entry in entries {
                match links::worktree_of(&entry) {
                    Ok(Some(path)) if path != subject.path && path.starts_with(subject.path) => {
                        note(&mut worktrees, RemovalAnswer::Yes(path.display().to_string()));
                    }
                    Ok(_) => {}
                    Err(error) => note(&mut worktrees, RemovalAnswer::Unknown(format!("{}: {error}", entry.display()))),
                }
            }
        }
    }
    for below in &walk.repositories {
        let path = subject.path.join(below);
        match nested::kind_of(&path) {
            Err(error) => note(&mut worktrees, RemovalAnswer::Unknown(format!("{}: {error}", path.display()))),
            Ok(NestedFolderKind::Nothing) => {}
            Ok(NestedFolderKind::Worktree) => note(&mut worktrees, RemovalAnswer::Yes(path.display().to_string())),
            Ok(NestedFolderKind::Repository { git_dir }) => {
                if git_dir.starts_with(subject.entry) {
                    look.submodules.push(below.clone());
                }
                match nested::own_work(repo.git(), &path, &git_dir).await {
                    RemovalAnswer::No => {}
                    RemovalAnswer::Yes(what) => {
                        note(&mut repositories, RemovalAnswer::Yes(format!("{} has {what}", below.display())));
                    }
                    RemovalAnswer::Unknown(why) => {
                        note(&mut repositories, RemovalAnswer::Unknown(format!("{}: {why}", below.display())));
                    }
                }
            }
        }
    }
    if let Some((path, why)) = &walk.unreadable {
        let unknown = RemovalAnswer::Unknown(format!("{} cannot be read ({why})", subject.path.join(path).display()));
        note(&mut worktrees, unknown.clone());
        note(&mut repositories, unknown);
    }
    look.findings.set_answer(Question::NestedWorktree, worktrees);
    look.findings.set_answer(Question::NestedRepository, repositories);
}

/// Pins everything that only this worktree's git directory holds, before that is moved where gc
/// does not look.
pub async fn pin_all(
    repo: &Repository,
    base: &str,
    subject: RemovalSubject<'_>,
    look: &RemovalCheck,
) -> Result<(), GitError> {
    let failed = |error: std::io::Error| GitError::unreadable_output("entry", error.to_string());
    let mut named = pins::named_in(subject.entry).map_err(failed)?;
    // The branch's earlier commits, whose reflog is deleted with it.
    if let Ok(log) = fs::read(repo.common_dir.join("logs").join(subject.branch.full_ref())) {
        pins::collect_object_ids(&log, 40, &mut named);
    }
    named.extend(look.branch.tip_commit().map(ToString::to_string));
    if repo.common_dir.join("reftable").exists() {
        named.extend(pins::in_reftable(repo, worktree_location(repo, subject), &subject.branch.full_ref()).await?);
    }
    let has_index = subject.entry.join("index").exists();
    let objects = if look.index_differs && has_index {
        pins::in_index(repo, worktree_location(repo, subject), None).await?
    } else {
        Vec::new()
    };
    pins::pin_objects(repo, base, look.head.as_ref(), &named, &objects).await
}
