//! Everything that speaks against taking a worktree away, asked at once.

use std::fs;
use std::path::{Path, PathBuf};

use grove_model::{Answer, BranchName, CommitSha, Question, short_hash};
use serde::{Deserialize, Serialize};

use super::branch::{self, BranchFate};
use super::nested::{self, Nested, Walk};
use super::regenerable::{self, RegenerableFolder, RegenerableNames};
use super::trash::{KEPT_LINK, Trashed};
use super::{RemovalError, pins};
use crate::durable::{SMALL, read_plain};
use crate::parse::{self, Status};
use crate::settled::{Instant, Temporary, settled_index, stamp_of, temporary_index};
use crate::{GitError, Place, Repository, links};

pub(super) const STATUS: [&str; 5] =
    ["--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=none"];

/// HEAD, index and status at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A worktree that may be taken away.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub path: &'a Path,
    /// Git's entry for it.
    pub entry: &'a Path,
    pub branch: &'a BranchName,
    /// Branches that stay whatever is on them.
    pub needed: &'a [&'a str],
    /// Names of folders that tools make again.
    pub regenerable: &'a RegenerableNames,
}

/// What speaks for and against it at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// One for every question that git or the disk can answer.
    pub answers: Vec<(Question, Answer)>,
    pub fingerprint: Fingerprint,
    /// When a file was last touched; missing if one could not be looked at.
    newest: Option<Instant>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Look {
    pub findings: Findings,
    /// Of the moment before everything was asked.
    pub stamp: Stamp,
    pub branch: BranchFate,
    /// The branch that is checked out, which may be another one; `None` when HEAD is detached.
    pub head_branch: Option<String>,
    pub head: Option<CommitSha>,
    /// Whether the index may hold what no commit holds.
    pub index_differs: bool,
    /// Submodules and other repositories whose `.git` leads into the entry.
    pub submodules: Vec<PathBuf>,
    /// Ignored folders that tools may have made; the names in force decide.
    pub regenerable: Vec<RegenerableFolder>,
}

impl Look {
    fn unknown(error: &GitError, fingerprint: Fingerprint, stamp: Stamp) -> Self {
        let asked = [Question::Changes, Question::Untracked, Question::DetachedCommits, Question::Submodules];
        let answers = asked.into_iter().map(|question| (question, Answer::unknown(error))).collect();
        Self {
            findings: Findings { answers, fingerprint, newest: None },
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

/// Asks everything. What could not be found out is an answer too.
pub async fn look(repo: &Repository, subject: Subject<'_>) -> Look {
    let before = stamp(subject.entry);
    let walking = {
        let (path, names) = (subject.path.to_owned(), subject.regenerable.clone());
        tokio::task::spawn_blocking(move || nested::walk(&path, &names))
    };
    let asking = async {
        let unreadable = |error: String| Walk { unreadable: Some((PathBuf::new(), error)), ..Walk::default() };
        let walk = walking.await.unwrap_or_else(|error| unreadable(error.to_string()));
        let settled = settled_index(&repo.common_dir, subject.entry, walk.newest);
        let submodules = may_recurse(subject, &walk);
        let ask = Ask { settled: settled.as_ref(), submodules };
        let (asked, folders) = tokio::join!(
            ask_status(repo, subject, ask),
            regenerable::ignored_folders(repo, place(repo, subject), &walk)
        );
        (asked, folders, walk, submodules)
    };
    let ((asked, folders, walk, submodules), hidden) = tokio::join!(asking, hidden_answer(repo, subject));
    let mut look = match asked {
        Ok((status, fingerprint)) => {
            let fate = branch::fate(repo, subject, status.branch.as_deref(), status.head.as_ref()).await;
            judge(repo, subject, &status, fingerprint, before, fate).await
        }
        Err((error, fingerprint)) => Look::unknown(&error, fingerprint, before),
    };
    look.findings.set(Question::HiddenChanges, hidden);
    look.findings.set(Question::InProgress, Answer::of(in_progress(subject.entry).map(str::to_owned)));
    look.findings.set(Question::Locked, locked(subject.entry));
    if !submodules {
        let why = "a repository inside it could not be asked safely";
        look.findings.set(Question::Submodules, Answer::unknown(why));
    }
    look_inside(repo, subject, &walk, &mut look).await;
    look.regenerable = folders.unwrap_or_else(|error| {
        tracing::info!("folders that tools make again are kept like all others: {error}");
        Vec::new()
    });
    look.findings.newest = walk.newest;
    look
}

impl Findings {
    /// Takes an answer in place of what was known. They stay in the order of the questions.
    pub fn set(&mut self, question: Question, answer: Answer) {
        self.answers.retain(|(known, _)| *known != question);
        self.answers.push((question, answer));
        self.answers.sort_by_key(|(question, _)| Question::ALL.iter().position(|known| known == question));
    }
}

/// Looks at a worktree that hibernates, where it is. What it holds was found out when it was put away
/// and cannot be asked again there: files that git holds were taken out, and nothing inside leads to its
/// repository. What others did since is asked: to its files, and to the commits that it has.
pub async fn look_in_trash(repo: &Repository, trashed: &Trashed, needed: &[&str]) -> Result<Look, RemovalError> {
    let (manifest, entry, branch) = (&trashed.manifest, trashed.buried_entry(), trashed.branch()?);
    let stamp = stamp(&entry);
    let mut findings = match &manifest.findings {
        Some(findings) => {
            let mut findings = findings.clone();
            if let Some(why) = touched_since(&manifest.files, findings.newest).await {
                findings.set(Question::Changes, Answer::Unknown(why));
            }
            findings
        }
        None => {
            let why = "an older version put it away; wake it to find out";
            let answers = vec![(Question::Changes, Answer::unknown(why))];
            Findings { answers, fingerprint: Fingerprint(short_hash(&stamp.0, 32)), newest: None }
        }
    };
    if let (None, Some(head)) = (&manifest.head_branch, &manifest.head) {
        findings.set(Question::DetachedCommits, detached_commits(repo, head).await);
    }
    let subject = Subject {
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
        Ok(_) => branch::fate(repo, subject, manifest.head_branch.as_deref(), manifest.head.as_ref()).await,
    };
    Ok(Look {
        findings,
        stamp,
        branch: fate,
        head_branch: manifest.head_branch.clone(),
        head: manifest.head.clone(),
        // All that it may hold is pinned.
        index_differs: true,
        submodules: manifest.submodules.clone(),
        regenerable: trashed.regenerable_left(),
    })
}

/// Why it is not known what the files are now, if something was done to them since.
async fn touched_since(files: &Path, newest: Option<Instant>) -> Option<String> {
    let files = files.to_owned();
    let walk = move || nested::walk_but_for(&files, &RegenerableNames::default(), &[".git", KEPT_LINK]);
    let Some(newest) = newest else { return Some("not all of its files could be looked at".to_owned()) };
    match tokio::task::spawn_blocking(walk).await {
        Err(error) => Some(error.to_string()),
        Ok(Walk { unreadable: Some((folder, why)), .. }) => Some(format!("{}: {why}", folder.display())),
        Ok(Walk { newest: None, .. }) => Some("not all of its files can be looked at".to_owned()),
        Ok(Walk { newest: Some(now), .. }) => {
            (now > newest).then(|| "something was written there while it hibernated".to_owned())
        }
    }
}

fn place<'a>(repo: &'a Repository, subject: Subject<'a>) -> Place<'a> {
    Place::Worktree { work_tree: subject.path, git_dir: subject.entry, common_dir: &repo.common_dir }
}

/// What git writes when somebody commits, stages or switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp(Vec<u8>);

/// HEAD and index as they are now: the cheap part of a fingerprint.
pub fn stamp(entry: &Path) -> Stamp {
    let mut seen = read_plain(&entry.join("HEAD"), SMALL).unwrap_or_default();
    seen.extend(stamp_of(&entry.join("index")).unwrap_or_default());
    Stamp(seen)
}

/// How the status is asked for.
struct Ask<'a> {
    settled: Option<&'a Temporary>,
    /// Git looks into submodules too, with what their own configuration says.
    submodules: bool,
}

/// Whether git may look into the repositories inside: an agent may have written their config.
fn may_recurse(subject: Subject<'_>, walk: &Walk) -> bool {
    walk.unreadable.is_none()
        && walk.repositories.iter().all(|below| match nested::kind_of(&subject.path.join(below)) {
            Ok(Nested::Repository { git_dir }) => nested::is_harmless(&git_dir).is_ok(),
            Ok(Nested::Nothing | Nested::Worktree) => true,
            Err(_) => false,
        })
}

async fn ask_status(
    repo: &Repository,
    subject: Subject<'_>,
    ask: Ask<'_>,
) -> Result<(Status, Fingerprint), (GitError, Fingerprint)> {
    let mut seen = stamp(subject.entry).0;
    let mut status = repo.git().command(place(repo, subject), "status").args(STATUS).inspecting_worktree();
    if !ask.submodules {
        status = status.arg("--ignore-submodules=all");
    }
    if let Some(index) = ask.settled {
        status = status.env("GIT_INDEX_FILE", &index.0);
    }
    let parsed = status.run().await.and_then(|output| {
        seen.extend(&output.stdout);
        parse::status(&output.stdout)
    });
    let fingerprint = Fingerprint(short_hash(&seen, 32));
    match parsed {
        Ok(status) => Ok((status, fingerprint)),
        Err(error) => Err((error, fingerprint)),
    }
}

/// `1 commit`, `2 commits`; nothing for none.
fn several(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        more => Some(format!("{more} {many}")),
    }
}

/// Commits of a detached HEAD that no ref holds.
async fn detached_commits(repo: &Repository, head: &CommitSha) -> Answer {
    match branch::own_commits(repo, head, None).await {
        Ok(count) => Answer::of(several(usize::try_from(count).unwrap_or(usize::MAX), "commit", "commits")),
        Err(error) => Answer::unknown(error),
    }
}

async fn judge(
    repo: &Repository,
    subject: Subject<'_>,
    status: &Status,
    fingerprint: Fingerprint,
    stamp: Stamp,
    fate: BranchFate,
) -> Look {
    let counts = &status.counts;
    let changes = [
        several(counts.staged, "staged change", "staged changes"),
        several(counts.unstaged, "unstaged change", "unstaged changes"),
        several(counts.conflicts, "conflict", "conflicts"),
    ];
    let changes: Vec<String> = changes.into_iter().flatten().collect();
    let untracked = several(counts.untracked, "untracked file or folder", "untracked files or folders");
    let submodules = several(counts.submodules, "changed submodule", "changed submodules");
    let detached = match (&status.branch, &status.head) {
        (None, Some(head)) => detached_commits(repo, head).await,
        _ => Answer::No,
    };
    let changed = Some(changes.join(", ")).filter(|text| !text.is_empty());
    let answers = vec![
        (Question::Changes, Answer::of(changed)),
        (Question::Untracked, Answer::of(untracked)),
        (Question::Submodules, Answer::of(submodules)),
        (Question::DetachedCommits, detached),
    ];
    Look {
        findings: Findings { answers, fingerprint, newest: None },
        stamp,
        branch: fate,
        head_branch: status.branch.clone(),
        head: status.head.clone(),
        // Resolved conflicts leave what they replaced in the index.
        index_differs: status.is_changed() || holds_resolutions(&subject.entry.join("index")),
        submodules: Vec::new(),
        regenerable: Vec::new(),
    }
}

/// Whether an index may have the extension that keeps what a resolution replaced.
fn holds_resolutions(index: &Path) -> bool {
    read_plain(index, u64::MAX).is_ok_and(|bytes| bytes.windows(4).any(|window| window == b"REUC"))
}

/// Changes to files that git was told not to look at (assume-unchanged, skip-worktree).
async fn hidden_answer(repo: &Repository, subject: Subject<'_>) -> Answer {
    match hidden_changes(repo, subject.path, subject.entry).await {
        Ok(files) if files.is_empty() => Answer::No,
        Ok(files) => {
            let shown: Vec<String> = files.iter().take(3).map(|file| file.display().to_string()).collect();
            let more = if files.len() > 3 { format!(" and {} more", files.len() - 3) } else { String::new() };
            Answer::Yes(format!("{}{more}", shown.join(", ")))
        }
        Err(error) => Answer::unknown(error),
    }
}

/// The files of a checkout that were changed although git was told not to look at them.
pub(crate) async fn hidden_changes(
    repo: &Repository,
    work_tree: &Path,
    git_dir: &Path,
) -> Result<Vec<PathBuf>, GitError> {
    let place = Place::Worktree { work_tree, git_dir, common_dir: &repo.common_dir };
    let listed = repo.git().command(place, "ls-files").args(["-v", "-z"]).inspecting_index().run().await?.stdout;
    let mut hidden = Vec::new();
    for line in listed.split(|byte| *byte == 0) {
        let (Some(tag), Some(name)) = (line.first(), line.get(2..)) else { continue };
        // `S` and lower case.
        if !tag.is_ascii_lowercase() && *tag != b'S' {
            continue;
        }
        let path = work_tree.join(parse::tracked_path(name)?);
        // What a sparse checkout leaves away is not changed.
        if tag.is_ascii_lowercase() || path.symlink_metadata().is_ok() {
            hidden.push(name);
        }
    }
    let mut paths = hidden.join(&0);
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    paths.push(0);
    // The same index with these marks taken away, beside the real one.
    let failed = |error: std::io::Error| GitError::unreadable("index", error.to_string());
    let copy = temporary_index(&repo.common_dir).map_err(failed)?;
    fs::copy(git_dir.join("index"), &copy.0).map_err(failed)?;
    for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
        let unmark = repo.git().command(place, "update-index").env("GIT_INDEX_FILE", &copy.0);
        unmark.args([flag, "-z", "--stdin"]).stdin(paths.clone()).inspecting_worktree().run().await?;
    }
    let changed = repo.git().command(place, "diff-files").env("GIT_INDEX_FILE", &copy.0);
    let changed =
        changed.args(["--name-only", "-z", "--ignore-submodules=all"]).inspecting_worktree().run().await?.stdout;
    let hidden: Vec<&[u8]> = paths.split(|byte| *byte == 0).collect();
    let changed = changed.split(|byte| *byte == 0).filter(|path| !path.is_empty() && hidden.contains(path));
    Ok(changed.map(parse::path).collect())
}

/// The operation that waits for its end in a worktree.
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

/// Whether an operation in a worktree comes back to a branch when it ends.
pub(crate) fn is_waiting_for(entry: &Path, branch: &BranchName) -> bool {
    let files = [
        ("rebase-merge/head-name", branch.full_ref()),
        ("rebase-merge/update-refs", branch.full_ref()),
        ("rebase-apply/head-name", branch.full_ref()),
        ("BISECT_START", branch.to_string()),
    ];
    files.iter().any(|(file, wanted)| match read_plain(&entry.join(file), SMALL) {
        Ok(text) => String::from_utf8_lossy(&text).lines().any(|line| line.trim_end() == wanted),
        // What cannot be read may be it.
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    })
}

fn locked(entry: &Path) -> Answer {
    match read_plain(&entry.join("locked"), SMALL) {
        Ok(reason) => Answer::Yes(String::from_utf8_lossy(&reason).trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Answer::No,
        Err(error) => Answer::unknown(error),
    }
}

/// Worktrees and repositories inside.
async fn look_inside(repo: &Repository, subject: Subject<'_>, walk: &Walk, look: &mut Look) {
    let (mut worktrees, mut repositories) = (Answer::No, Answer::No);
    let note = |answer: &mut Answer, new: Answer| {
        // The first that is found; not to know weighs less than to know.
        if answer.is_no() || (matches!(answer, Answer::Unknown(_)) && matches!(new, Answer::Yes(_))) {
            *answer = new;
        }
    };
    match links::entries(&repo.common_dir) {
        Err(error) => worktrees = Answer::unknown(error),
        // Also one whose folder is away.
        Ok(entries) => {
            for entry in entries {
                match links::worktree_of(&entry) {
                    Ok(Some(path)) if path != subject.path && path.starts_with(subject.path) => {
                        note(&mut worktrees, Answer::Yes(path.display().to_string()));
                    }
                    Ok(_) => {}
                    Err(error) => note(&mut worktrees, Answer::Unknown(format!("{}: {error}", entry.display()))),
                }
            }
        }
    }
    for below in &walk.repositories {
        let path = subject.path.join(below);
        match nested::kind_of(&path) {
            Err(error) => note(&mut worktrees, Answer::Unknown(format!("{}: {error}", path.display()))),
            Ok(Nested::Nothing) => {}
            Ok(Nested::Worktree) => note(&mut worktrees, Answer::Yes(path.display().to_string())),
            Ok(Nested::Repository { git_dir }) => {
                if git_dir.starts_with(subject.entry) {
                    look.submodules.push(below.clone());
                }
                match nested::own_work(repo.git(), &path, &git_dir).await {
                    Answer::No => {}
                    Answer::Yes(what) => {
                        note(&mut repositories, Answer::Yes(format!("{} has {what}", below.display())));
                    }
                    Answer::Unknown(why) => {
                        note(&mut repositories, Answer::Unknown(format!("{}: {why}", below.display())));
                    }
                }
            }
        }
    }
    if let Some((path, why)) = &walk.unreadable {
        let unknown = Answer::Unknown(format!("{} cannot be read ({why})", subject.path.join(path).display()));
        note(&mut worktrees, unknown.clone());
        note(&mut repositories, unknown);
    }
    look.findings.set(Question::NestedWorktree, worktrees);
    look.findings.set(Question::NestedRepository, repositories);
}

/// Pins what only this worktree's git directory holds, before it goes where gc does not look.
pub async fn pin_all(repo: &Repository, base: &str, subject: Subject<'_>, look: &Look) -> Result<(), GitError> {
    let failed = |error: std::io::Error| GitError::unreadable("entry", error.to_string());
    let mut named = pins::named_in(subject.entry).map_err(failed)?;
    // What the branch was at, which goes with its reflog.
    if let Ok(log) = fs::read(repo.common_dir.join("logs").join(subject.branch.full_ref())) {
        pins::collect(&log, 40, &mut named);
    }
    named.extend(look.branch.tip().map(ToString::to_string));
    if repo.common_dir.join("reftable").exists() {
        named.extend(pins::in_reftable(repo, place(repo, subject), &subject.branch.full_ref()).await?);
    }
    let has_index = subject.entry.join("index").exists();
    let objects = if look.index_differs && has_index {
        pins::in_index(repo, place(repo, subject), None).await?
    } else {
        Vec::new()
    };
    pins::pin(repo, base, look.head.as_ref(), &named, &objects).await
}
