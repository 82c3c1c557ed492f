//! The text for a refused or failed push: the reason, and what to do.

use grove_git::push::PushError;

use crate::error::PushRefusedError;
use crate::problem::Problem;

pub(super) fn not_pushed(error: &PushRefusedError, message: String) -> Problem {
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

pub(super) fn push_problem(error: PushError, message: String) -> Problem {
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
