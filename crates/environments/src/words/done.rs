//! The lines that report an action on a worktree: the same for terminal and conversation.

use std::path::Path;

use grove_git::finish::FinishOutcome;
use grove_git::push::PushOutcome;
use grove_git::removal::{BranchFate, RegenerableFolder};
use grove_git::{ProgressPhase, ProgressStep};
use grove_model::{Moment, UserText, human_size};
use jiff::SignedDuration;

use crate::cleanup::CleanupReport;
use crate::forge::OpenedPullRequest;
use crate::integrate::sync::SyncOutcome;
use crate::remove::{HibernatedEnvironment, RemoveOutcome, TrashedFolder};

/// Formats a text for people.
macro_rules! text {
    ($($arguments:tt)*) => { UserText::from(format!($($arguments)*)) };
}

/// Says that a creation waits for a remote.
pub fn waiting_for_remote(remote: &str) -> UserText {
    text!("Waiting for `{remote}` to answer…")
}

/// Says how far a clone, fetch or checkout is.
pub fn progress_text(step: &ProgressStep) -> String {
    let what = match step.phase {
        ProgressPhase::Preparing => "Preparing objects",
        ProgressPhase::Receiving => "Receiving objects",
        ProgressPhase::Resolving => "Resolving deltas",
        ProgressPhase::CheckingOut => "Checking out files",
    };
    match &step.received {
        Some((amount, rate)) => format!("{what}: {}% ({amount}, {rate})", step.percent),
        None => format!("{what}: {}% ({}/{})", step.percent, step.done, step.total),
    }
}

pub fn describe_removed(branch: &str, removed: &RemoveOutcome, keep_days: u64) -> Vec<UserText> {
    match removed {
        RemoveOutcome::Gone => vec![text!("The folder of `{branch}` was gone already; its record has ended.")],
        RemoveOutcome::Released(path) => vec![describe_released(branch, path)],
        RemoveOutcome::Trashed { fate, branch_kept, regenerable, .. } => {
            let mut lines = vec![text!("Removed the worktree `{branch}`.")];
            if *branch_kept {
                lines.push(branch_words(branch, fate));
            }
            lines.push(text!("It is kept for {keep_days} days; `grove worktree undo {branch}` brings it back."));
            lines.extend(folders_kept(regenerable));
            lines
        }
    }
}

fn describe_released(branch: &str, path: &Path) -> UserText {
    text!("Released `{branch}`: Grovekeeper did not make that worktree, so it stays at {}.", path.display())
}

/// Says why a branch stays.
pub fn branch_words(branch: &str, fate: &BranchFate) -> UserText {
    let why = match fate {
        BranchFate::OwnCommits { commits: 1, .. } => "it has a commit that is nowhere else".into(),
        BranchFate::OwnCommits { commits, .. } => text!("it has {commits} commits that are nowhere else"),
        BranchFate::InUse { .. } => "it is in use elsewhere".into(),
        BranchFate::Unknown { why } => text!("it is not known whether something would be lost ({why})"),
        BranchFate::Goes { .. } => "it was moved meanwhile, or could not be deleted".into(),
        BranchFate::Absent => return text!("The branch `{branch}` was gone already."),
    };
    text!("The branch `{branch}` stays: {why}.")
}

pub fn describe_finished(branch: &str, finished: &FinishOutcome) -> Vec<UserText> {
    let merged = text!("Merged `{branch}` into `{}` at {}.", finished.base, finished.commit.short_sha());
    let updated = finished
        .updated
        .iter()
        .map(|path| text!("The checkout at {} was updated: it is on `{}`.", path.display(), finished.base));
    std::iter::once(merged).chain(updated).collect()
}

pub fn describe_synced(synced: &SyncOutcome) -> UserText {
    let branch = &synced.branch;
    if synced.changed {
        text!("Brought {} at {} into `{branch}`.", synced.from, synced.at.short_sha())
    } else {
        text!("`{branch}` has everything of {} already.", synced.from)
    }
}

pub fn describe_pushed(branch: &str, pushed: &PushOutcome) -> UserText {
    let (remote, at) = (&pushed.remote, pushed.at.short_sha());
    if pushed.new {
        text!("Pushed `{branch}` to `{remote}`, at {at}.")
    } else {
        text!("`{remote}` has everything of `{branch}` already, at {at}.")
    }
}

/// Says which changes a push did not include, if there are any.
pub fn left_behind(uncommitted: usize) -> Option<UserText> {
    match uncommitted {
        0 => None,
        1 => Some("1 file is not committed, so it was not pushed.".into()),
        count => Some(text!("{count} files are not committed, so they were not pushed.")),
    }
}

pub fn describe_pull_request(opened: &OpenedPullRequest) -> UserText {
    let pull_request = &opened.pull_request;
    let verb = if opened.found { "It has" } else { "Opened" };
    text!("{verb} pull request #{}: {}", pull_request.number, pull_request.url)
}

pub fn describe_hibernated(slept: &HibernatedEnvironment) -> Vec<UserText> {
    let branch = &slept.environment.branch;
    let mut lines =
        vec![text!("`{branch}` hibernates; `grove worktree wake {branch}` or the next use brings it back.")];
    lines.extend(folders_kept(&slept.regenerable));
    lines
}

/// The maximum number of folders that one sentence names, the largest first.
const MAX_NAMED_FOLDERS: usize = 20;

/// Names folders with their sizes.
fn named_folders(folders: &[(&Path, u64)]) -> String {
    let mut folders = folders.to_vec();
    folders.sort_by_key(|(path, bytes)| (std::cmp::Reverse(*bytes), *path));
    let (named, rest) = folders.split_at(folders.len().min(MAX_NAMED_FOLDERS));
    let mut names: Vec<String> = named.iter().map(|(path, bytes)| folder_words(path, *bytes)).collect();
    if !rest.is_empty() {
        let bytes = rest.iter().map(|(_, bytes)| bytes).sum();
        names.push(format!("{} more ({})", rest.len(), human_size(bytes)));
    }
    names.join(", ")
}

/// `` `target/` (1.2 GiB) ``
pub fn folder_words(path: &Path, bytes: u64) -> String {
    format!("`{}/` ({})", path.display(), human_size(bytes))
}

/// Formats a moment to the minute.
pub fn format_to_minute(moment: Moment) -> String {
    format!("{} UTC", moment.to_string().chars().take(16).collect::<String>().replace('T', " "))
}

fn folder_list(folders: &[TrashedFolder]) -> String {
    named_folders(&folders.iter().map(|folder| (folder.path.as_path(), folder.bytes)).collect::<Vec<_>>())
}

/// Says which folders leave the trash early, and when.
pub fn folders_kept(folders: &[TrashedFolder]) -> Option<UserText> {
    let until = format_to_minute(folders.first()?.kept_until);
    let list = folder_list(folders);
    Some(match folders.len() {
        1 => text!("This folder can be made again, so it is kept only until {until}: {list}."),
        _ => text!("These folders can be made again, so they are kept only until {until}: {list}."),
    })
}

/// Says which folders were not restored.
pub fn folders_gone(folders: &[TrashedFolder]) -> Option<UserText> {
    let list = folder_list(folders);
    match folders.len() {
        0 => None,
        1 => Some(text!("This folder has left the trash, since it can be made again: {list}.")),
        _ => Some(text!("These folders have left the trash, since they can be made again: {list}.")),
    }
}

/// Says which folders would leave the trash early.
pub fn folders_planned(folders: &[RegenerableFolder], keep: SignedDuration) -> Option<UserText> {
    match folders.len() {
        0 => None,
        1 => Some(text!("This folder can be made again, so it is kept for {keep:#} only:")),
        _ => Some(text!("These folders can be made again, so they are kept for {keep:#} only:")),
    }
}

pub fn describe_cleanup(report: &CleanupReport, dry_run: bool) -> Vec<UserText> {
    let verb = if dry_run { "Would remove" } else { "Removed" };
    let gone = report.removed.iter().map(|gone| text!("{verb} `{}`", gone.branch));
    let kept = report.skipped.iter().map(|skipped| text!("Kept `{}`: {}", skipped.branch, skipped.reason));
    let failed = report.failed.iter().map(|failed| text!("Failed `{}`: {}", failed.branch, failed.error));
    let mut lines: Vec<UserText> = gone.chain(kept).chain(failed).collect();
    let is_empty = lines.is_empty();
    lines.extend(report.warnings.iter().map(|warning| UserText::from(warning.as_str())));
    if is_empty {
        lines.push("Nothing to clean up.".into());
    } else if !dry_run && !report.removed.is_empty() {
        lines.push("`grove worktree undo NAME` brings one back.".into());
    }
    lines
}
