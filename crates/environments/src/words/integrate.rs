//! The text of finish, sync, push and pull requests.

use grove_git::finish::{FinishError, FinishMethodError};
use grove_git::push::PushError;
use grove_git::sync::SyncError;

use crate::error::{IntegrateError, PushRefusedError};
use crate::problem::{Problem, sentence};

impl From<IntegrateError> for Problem {
    fn from(error: IntegrateError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            IntegrateError::OtherBranch { recorded, now, named } => {
                let other = match (named, now.branch_name()) {
                    (Some(named), _) => format!("`{named}` is not checked out there; switch to it first"),
                    (None, Some(now)) => format!("Say which one is meant: `--branch {now}` or `--branch {recorded}`"),
                    (None, None) => format!("Switch to a branch there, or say `--branch {recorded}`"),
                };
                Problem::new("other_branch", message, format!("{other}. Nothing was done."))
            }
            IntegrateError::Finish(error) => finish_failed(*error, message),
            IntegrateError::Sync(error) => match *error {
                SyncError::Conflict { .. } => {
                    Problem::new("conflict", message, "It was taken back; merge it there by hand and resolve it.")
                }
                SyncError::NoSuch(_) => Problem::new("no_base", message, "Check its name and the remote."),
                SyncError::FetchFailed { remote, .. } => Problem::new(
                    "remote_unreachable",
                    message,
                    format!("Check the network and `git fetch {remote}`, then try again."),
                ),
                SyncError::Git(error) => error.into(),
            },
            IntegrateError::NoPush(error) => not_pushed(&error, message),
            IntegrateError::Push(error) => push_problem(*error, message),
            IntegrateError::Forge { .. } => {
                Problem::new("forge_failed", message, "`/pr` tries it again; or open it by hand.")
            }
        }
    }
}

impl From<FinishMethodError> for Problem {
    fn from(error: FinishMethodError) -> Self {
        Problem::new("usage", sentence(&error.to_string()), "Give one of them.")
    }
}

fn finish_failed(error: FinishError, message: String) -> Problem {
    let (code, hint) = match &error {
        FinishError::Conflict { branch, base, .. } => (
            "conflict",
            format!(
                "Nothing was merged; `grove worktree exec {branch} -- git merge {base}`, resolve it there, finish again."
            ),
        ),
        FinishError::Diverged(base) => {
            ("diverged_base", format!("Nothing was merged; bring `{base}` and its upstream together first."))
        }
        FinishError::NoBase(_) => ("no_base", "Nothing was merged; merge it by hand.".to_owned()),
        FinishError::Moved(_) => ("changed_meanwhile", "Nothing was merged; try again.".to_owned()),
        FinishError::DirtyCheckout { path, base, .. } => (
            "dirty_checkout",
            format!(
                "Nothing was merged. Commit or stash the changes in {}, or switch it to another branch than `{base}`, then finish again.",
                path.display()
            ),
        ),
        FinishError::Git(_) => {
            let FinishError::Git(error) = error else { return Problem::new("git_failed", message, "Try again.") };
            return error.into();
        }
    };
    Problem::new(code, message, hint)
}

fn not_pushed(error: &PushRefusedError, message: String) -> Problem {
    match error {
        PushRefusedError::SwitchedOff => {
            Problem::new("push_off", message, "Set `push` to `ask` or `auto` in GROVE_HOME/config.toml.")
        }
        PushRefusedError::ForReview { .. } => {
            Problem::new("not_ours", message, "Say there what should be changed, or work on a branch of your own.")
        }
        PushRefusedError::DefaultBranch { .. } => {
            Problem::new("default_branch", message, "Work on a branch of its own: `/worktree create NAME`.")
        }
        PushRefusedError::NoRemote => Problem::new("no_remote", message, "Add one with `git remote add origin URL`."),
        PushRefusedError::NoForge { .. } => Problem::new(
            "no_forge",
            message,
            "Set `adapters.github.token`, or an App, for a repository on GitHub; `/push` pushes the branch without.",
        ),
        PushRefusedError::NoBase { .. } => {
            Problem::new("no_base", message, "Set `worktree.base_branch`, then `/pr` again.")
        }
    }
}

fn push_problem(error: PushError, message: String) -> Problem {
    match error {
        PushError::NoBranch(_) => Problem::new("no_branch", message, "Nothing was pushed; `grove doctor` says more."),
        PushError::NothingToPush { .. } => {
            Problem::new("nothing_to_push", message, "Only commits are pushed: let the agent commit its work first.")
        }
        PushError::Behind { .. } => Problem::new(
            "non_fast_forward",
            message,
            "Nothing was pushed, and nothing is ever forced; `/worktree sync` brings them in.",
        ),
        PushError::Refused { .. } => {
            Problem::new("push_refused", message, "Nothing was pushed; check the rules of the branch there.")
        }
        PushError::Failed { .. } => Problem::new(
            "push_failed",
            message,
            "Check the network and whether the token may write to the repository, then try again.",
        ),
        PushError::Io(_) => {
            Problem::new("not_writable", message, "Give yourself write access to the repository's .git directory.")
        }
        PushError::Git(error) => error.into(),
    }
}
