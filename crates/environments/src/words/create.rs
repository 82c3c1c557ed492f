//! The text of creation.

use grove_git::holder::HolderState;
use grove_git::worktree::{AddWorktreeError, TargetError, WorktreeFlaw};

use crate::error::{CreateError, WorktreeLimit};
use crate::problem::{Problem, ProblemOption, ProblemReason, sentence};
use crate::words::{disk_trouble, gone_holder_hint, lowercase_first_word};

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            CreateError::Add { branch, error } => {
                let problem = Problem::from(*error);
                let why = lowercase_first_word(problem.message.as_str());
                problem.with_message(format!("The worktree for `{branch}` was not made: {why}"))
            }
            CreateError::Work(error) => error.into(),
            CreateError::Include(_) => {
                Problem::new("git_failed", message, "Nothing was left behind; correct the cause and try again.")
            }
            CreateError::Submodules(_) => Problem::new(
                "submodules_failed",
                message,
                "Nothing was left behind. Correct the cause, or set `worktree.submodules` to `true` to go on without \
                 what cannot be had, or to `false` to leave submodules alone.",
            ),
            CreateError::InitFailed { last_lines, .. } => {
                let hint =
                    "The agent was not started. Correct the cause, then run `/worktree init`, or remove the worktree.";
                let lines = (!last_lines.is_empty()).then(|| ProblemReason::new("last_lines", last_lines, ""));
                Problem::new("init_failed", message, hint).with_reasons(lines.into_iter().collect())
            }
            CreateError::OutsideRoot { .. } => Problem::new(
                "outside_root",
                message,
                "Set `worktree.base` to a directory below it, or change `security.allowed_root`.",
            ),
            CreateError::InsideGit { .. } => {
                Problem::new("bad_place", message, "Set `worktree.base` to a directory outside of it.")
            }
            CreateError::LittleSpace { .. } => Problem::new(
                "disk_full",
                message,
                "Free some space, set `worktree.base` to a larger disk, or lower `limits.min_free_disk`.",
            ),
            CreateError::HasEnvironment { .. } => Problem::new(
                "branch_exists",
                message,
                "Leave `--from` away to use it as it is, or choose another name.",
            ),
            CreateError::Held { .. } => Problem::new("branch_held", message, "Use that one, or choose another name."),
            CreateError::NotAdoptable { .. } => Problem::new(
                "not_adoptable",
                message,
                "`grove worktree orphans` lists those that can be; the main checkout never is.",
            ),
            CreateError::OnNoBranch { .. } => Problem::new("not_adoptable", message, "Check a branch out there first."),
            CreateError::Full(full) => no_room(&full, message),
        }
    }
}

impl From<TargetError> for Problem {
    fn from(error: TargetError) -> Self {
        let hint = match &error {
            TargetError::Worktree(path) => format!(
                "Take it over with `grove worktree adopt {}`, remove it with `git worktree remove`, or choose another name.",
                path.display()
            ),
            TargetError::Unknown { .. } => {
                "Give yourself access to it, or set `worktree.base` to another directory.".to_owned()
            }
            _ => "It was left alone; move it away, or set `worktree.base` to another directory.".to_owned(),
        };
        Problem::new("path_taken", sentence(&error.to_string()), hint)
    }
}

impl From<AddWorktreeError> for Problem {
    fn from(error: AddWorktreeError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            AddWorktreeError::Target(error) => error.into(),
            AddWorktreeError::Base(error) => error.into(),
            AddWorktreeError::Git(error) => error.into(),
            AddWorktreeError::BranchExists(_) => Problem::new(
                "branch_exists",
                message,
                "Leave `--from` away to go on with the branch as it is, or choose another name.",
            ),
            AddWorktreeError::BranchHeld { at, state, .. } => {
                let at = at.display();
                let hint = gone_holder_hint(state, &at).unwrap_or_else(|| match state {
                    HolderState::MainCheckout => {
                        "Work there, check out another branch there, or choose another name.".to_owned()
                    }
                    _ => format!(
                        "Take it over with `grove worktree adopt {at}`, check out another branch there, or choose another name."
                    ),
                });
                Problem::new("branch_held", message, hint)
            }
            AddWorktreeError::BranchInTheWay { .. } => {
                Problem::new("branch_in_the_way", message, "Choose another name.")
            }
            AddWorktreeError::NoSuchPullRequest { .. } => {
                Problem::new("no_pull_request", message, "Check the number and the remote.")
            }
            AddWorktreeError::NoSuchBranch { .. } => Problem::new(
                "no_branch",
                message,
                "Check its name; a pull request from a fork takes `--fork` and no name.",
            ),
            AddWorktreeError::NoSuchCommit { .. } => Problem::new(
                "no_commit",
                message,
                "The pull request was pushed over; take its newest commit by leaving `--sha` away.",
            ),
            AddWorktreeError::NoRemote => {
                Problem::new("no_remote", message, "Add one with `git remote add origin URL`.")
            }
            AddWorktreeError::FetchFailed { remote, .. } => Problem::new(
                "remote_unreachable",
                message,
                format!("Check the network and `git fetch {remote}`, then try again."),
            ),
            AddWorktreeError::Flawed(WorktreeFlaw::SharedIndex) => Problem::new(
                "creation_flawed",
                message,
                "It was taken back. This is a bug of git's: run `git config core.splitIndex false`, then try again.",
            ),
            AddWorktreeError::Flawed(_) => {
                Problem::new("creation_flawed", message, "It was taken back; check the disk with `df` and try again.")
            }
            AddWorktreeError::Io { source, .. } => {
                let (code, hint) = disk_trouble(&source.to_string());
                Problem::new(code, message, hint)
            }
            AddWorktreeError::Journal(_) => {
                Problem::new("store_failed", message, "It was taken back; check the store and try again.")
            }
            AddWorktreeError::DiskFull { .. } => {
                Problem::new("disk_full", message, "Free some space, or set `worktree.base` to a larger disk.")
            }
            AddWorktreeError::Checkout { line } | AddWorktreeError::Branch { line, .. } => {
                let (code, hint) = disk_trouble(&line);
                Problem::new(code, message, hint)
            }
        }
    }
}

/// Describes a reached limit: the current state, and what can be done.
fn no_room(full: &WorktreeLimit, message: String) -> Problem {
    let (merged, stale, active) = (full.merged, full.stale, full.active);
    let reasons = vec![
        ProblemReason::new("merged", format!("{merged} merged (can auto-remove)"), "`grove worktree cleanup merged`"),
        ProblemReason::new(
            "stale",
            format!("{stale} stale (no activity in {}+ days)", full.stale_days),
            "`grove worktree cleanup stale`",
        ),
        ProblemReason::new("active", format!("{active} active"), "`grove worktree remove <name>`"),
    ];
    let all = merged + stale + active;
    let option = |command: &str, count| ProblemOption { command: format!("`grove worktree {command}`").into(), count };
    let options = vec![
        option("cleanup merged", merged),
        option("cleanup stale", stale),
        option("list", all),
        option("remove <name>", all),
    ];
    let named: Vec<String> = options.iter().map(|option| format!("{} ({})", option.command, option.count)).collect();
    let hint = format!("Options: {}.", named.join(", "));
    Problem { options, ..Problem::new("limit_reached", message, hint).with_reasons(reasons) }
}
