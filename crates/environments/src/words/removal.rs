//! The text of removal and undo.

use grove_git::removal::RemovalError;
use grove_model::{Question, RemovalAnswer};

use crate::error::{ActionRefusal, RefusedAction, RemoveError};
use crate::problem::{Problem, ProblemReason, sentence};
use crate::words::index::index_repair;
use crate::words::{disk_trouble, gone_holder_hint, lowercase_first_word};

impl From<RemoveError> for Problem {
    fn from(error: RemoveError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            RemoveError::ChangedMeanwhile { .. } => {
                Problem::new("changed_meanwhile", message, "Nothing was removed; look at it and try again.")
            }
            RemoveError::StillRunning { .. } => {
                Problem::new("live_run", message, "Nothing was removed; end it yourself and try again.")
            }
            RemoveError::NotInTrash(_) => {
                Problem::new("not_found", message, "`grove worktree trash list` shows what can be brought back.")
            }
            RemoveError::EmptyTrash => Problem::new("not_found", message, "`grove worktree list` shows what is there."),
            RemoveError::Successor { .. } => {
                Problem::new("successor", message, "Remove that one first, then undo this one.")
            }
            RemoveError::NotHibernated { .. } => {
                Problem::new("not_hibernated", message, "`grove worktree list` shows which are.")
            }
            RemoveError::Removal(error) => error.into(),
        }
    }
}

impl From<RemovalError> for Problem {
    fn from(error: RemovalError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            RemovalError::Git(error) => error.into(),
            RemovalError::Io { source, .. } => {
                let (code, _) = disk_trouble(&source.to_string());
                let code = if code == "git_failed" { "not_writable" } else { code };
                Problem::new(code, message, "Nothing was moved; correct the cause and try again.")
            }
            RemovalError::OtherFileSystem(_) => Problem::new(
                "other_file_system",
                message,
                "Nothing was moved, since it would have to be copied; is it a mount of its own?",
            ),
            RemovalError::DiskFull { .. } => {
                Problem::new("disk_full", message, "Nothing was moved; free some space and try again.")
            }
            RemovalError::Pin(line) => match index_repair(&line, None) {
                Some(hint) => Problem::new("index_damaged", message, format!("Nothing was moved. {hint}")),
                None => {
                    let (code, _) = disk_trouble(&line);
                    Problem::new(code, message, "Nothing was moved; correct the cause and try again.")
                }
            },
            RemovalError::PathTaken(_) => {
                Problem::new("path_taken", message, "Nothing was changed; move that away, then try again.")
            }
            RemovalError::BranchMoved { name, .. } => Problem::new(
                "branch_moved",
                message,
                format!("Nothing was changed; call it something else with `git branch -m {name} NEW-NAME`, then undo."),
            ),
            RemovalError::BranchHeld { at, state, .. } => {
                let hint = gone_holder_hint(state, &at.display());
                let hint = hint.unwrap_or_else(|| "Check out another branch there, then try again.".to_owned());
                Problem::new("branch_held", message, format!("Nothing was changed. {hint}"))
            }
            RemovalError::NotInTrash(_) => Problem::new(
                "not_found",
                message,
                "If its disk is not mounted, mount it; `grove worktree trash list` shows the rest.",
            ),
            RemovalError::CommitGone(_) => {
                Problem::new("no_commit", message, "Nothing was changed; fetch it from where it was pushed, then undo.")
            }
            RemovalError::BadManifest(_) => {
                Problem::new("bad_manifest", message, "Nothing was changed; please report this with the text above.")
            }
        }
    }
}

/// Returns all reasons at once, each with what to do.
pub(super) fn refusal_problem(refusal: &ActionRefusal) -> Problem {
    let days = refusal.keep_days;
    let branch = &refusal.environment.branch;
    let unsaved =
        |question: Question| matches!(question, Question::Changes | Question::HiddenChanges | Question::Untracked);
    let reasons: Vec<ProblemReason> =
        refusal.reasons.iter().map(|(question, answer)| describe_reason(*question, answer, branch.as_str())).collect();
    let hard =
        refusal.reasons.iter().any(|(question, answer)| question.is_hard() && matches!(answer, RemovalAnswer::Yes(_)));
    let verb = match refusal.action {
        RefusedAction::Remove | RefusedAction::RemoveMerged => "remove",
        RefusedAction::Finish => "finish",
        RefusedAction::Sync => "sync",
        RefusedAction::Hibernate => "hibernate",
    };
    let message = match refusal.reasons.first() {
        Some((question, RemovalAnswer::Yes(_))) if unsaved(*question) => {
            format!("Cannot {verb} worktree - you have uncommitted changes.")
        }
        _ => match &reasons[..] {
            [one] => format!("Cannot {verb} worktree - {}", lowercase_first_word(one.message.as_str())),
            several => format!("Cannot {verb} worktree - {} reasons speak against it.", several.len()),
        },
    };
    let is_unsaved = refusal.reasons.iter().any(|(question, _)| unsaved(*question));
    let settle = if is_unsaved { "Commit the changes, discard them" } else { "Settle that first" };
    let kept = format!("it is kept for {days} days, and `grove worktree undo {branch}` brings it back.");
    let damage = refusal.reasons.iter().find_map(|(_, answer)| match answer {
        RemovalAnswer::Unknown(why) => index_repair(why, Some(branch.as_str())),
        _ => None,
    });
    let hint = damage.unwrap_or_else(|| match refusal.action {
        RefusedAction::Remove | RefusedAction::RemoveMerged if hard => {
            "Nothing was removed: a worktree inside it would break. Remove that one first.".to_owned()
        }
        RefusedAction::Remove => format!("{settle}, or use `--force`: {kept}"),
        RefusedAction::RemoveMerged => format!("{settle}, or use `grove worktree remove {branch} --force`: {kept}"),
        RefusedAction::Finish | RefusedAction::Sync | RefusedAction::Hibernate => {
            let settle = if is_unsaved { "Commit the changes or discard them" } else { "Settle that first" };
            format!("Nothing was changed. {settle}, then {verb} again.")
        }
    });
    Problem::new("refused", message, hint).with_reasons(reasons)
}

/// Describes one reason against a removal.
pub fn describe_reason(question: Question, answer: &RemovalAnswer, branch: &str) -> ProblemReason {
    let detail = match answer {
        RemovalAnswer::Yes(detail) => detail.as_str(),
        RemovalAnswer::No => "",
        RemovalAnswer::Unknown(why) => {
            let what = match question {
                Question::Changes => "whether there are uncommitted changes",
                Question::HiddenChanges => "whether files hidden from git were changed",
                Question::Untracked => "whether there are untracked files",
                Question::DetachedCommits => "whether commits would be lost",
                Question::InProgress => "whether an operation is in progress",
                Question::Submodules => "whether submodules were changed",
                Question::NestedWorktree => "whether another worktree lies inside",
                Question::NestedRepository => "whether a repository inside has work of its own",
                Question::Locked => "whether it is locked",
                Question::LiveRun => "whether something runs in it",
                Question::Conversations => "whether another conversation uses it",
                Question::PullRequest => "whether its pull request is open",
            };
            let message = format!("It is not known {what} ({}).", why.trim_end_matches('.'));
            let hint = index_repair(why, Some(branch))
                .unwrap_or_else(|| format!("See `grove worktree show {branch}`, and put that right first."));
            return ProblemReason::new(question.as_str(), message, hint);
        }
    };
    let in_it = |command: &str| format!("`grove worktree exec {branch} -- {command}`");
    let (message, hint) = match question {
        Question::Changes => {
            (format!("It has uncommitted changes ({detail})."), format!("See {}.", in_it("git status")))
        }
        Question::HiddenChanges => (
            format!("Files that git was told not to look at were changed ({detail})."),
            format!("See {}.", in_it("git ls-files -v")),
        ),
        Question::Untracked => {
            (format!("It has files that git does not know ({detail})."), format!("See {}.", in_it("git status")))
        }
        Question::DetachedCommits => (
            format!("It is on no branch and has commits that no branch holds ({detail})."),
            format!("Keep them with {}.", in_it("git branch NAME")),
        ),
        Question::InProgress => {
            (format!("A {detail} is in progress."), format!("Finish or abort it; see {}.", in_it("git status")))
        }
        Question::Submodules => {
            (format!("Submodules were changed ({detail})."), format!("See {}.", in_it("git submodule status")))
        }
        Question::NestedWorktree => {
            (format!("Another worktree lies inside it ({detail})."), "Remove that one first.".to_owned())
        }
        Question::NestedRepository => {
            (format!("A repository inside it has work of its own ({detail})."), "Push or discard it there.".to_owned())
        }
        Question::Locked => {
            let why = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
            (format!("It is locked{why}."), format!("Unlock it with {}.", in_it("git worktree unlock .")))
        }
        Question::LiveRun => {
            (format!("Something runs in it ({detail})."), "Wait until it has ended, or end it.".to_owned())
        }
        Question::Conversations => (format!("Other conversations use it ({detail})."), "Ask there first.".to_owned()),
        Question::PullRequest => (format!("Its pull request {detail} is open."), "Merge or close it first.".to_owned()),
    };
    ProblemReason::new(question.as_str(), message, hint)
}
