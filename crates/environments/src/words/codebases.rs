//! The text of registering, moving and removing codebases.

use crate::codebases::{CodebaseError, UnsavedWork};
use crate::problem::{Problem, ProblemReason, sentence};

impl From<CodebaseError> for Problem {
    fn from(error: CodebaseError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            CodebaseError::Repository(error) => error.into(),
            CodebaseError::Base(error) => error.into(),
            CodebaseError::Git(error) => error.into(),
            CodebaseError::Store(error) => error.into(),
            CodebaseError::BadName(_) => {
                Problem::new("bad_name", message, "Use letters, digits, `.`, `-`, `_` and `/`.")
            }
            CodebaseError::AlreadyNamed { name, .. } => {
                Problem::new("already_registered", message, format!("Use it as `{name}`, or remove it first."))
            }
            CodebaseError::OutsideRoot { .. } => Problem::new(
                "outside_root",
                message,
                "Move it there, or change `security.allowed_root` (ALLOWED_ROOT_DIRECTORY).",
            ),
            CodebaseError::CheckoutMoved { name, to, .. } => {
                let hint =
                    format!("`grove codebase move {name} {}` takes its new place into the record.", to.display());
                Problem::new("checkout_moved", message, hint)
            }
            CodebaseError::NotMoved { .. } => {
                Problem::new("not_moved", message, "Register another checkout with `grove codebase add PATH`.")
            }
            CodebaseError::AnotherRepository { .. } => {
                Problem::new("another_repository", message, "Give the path that the checkout was moved to.")
            }
            CodebaseError::CloneTaken(_) => {
                Problem::new("path_taken", message, "Register that directory by its path, or move it away.")
            }
            CodebaseError::CloneFailed { line, .. } => Problem::new("clone_failed", message, clone_hint(&line)),
            CodebaseError::Io { .. } => {
                Problem::new("not_writable", message, "Give yourself write access there, or set GROVE_HOME.")
            }
            CodebaseError::Unknown { known, .. } => {
                let hint = match known.as_slice() {
                    [] => "Register one with `grove codebase add PATH`.".to_owned(),
                    names => format!("Registered are: {}.", names.join(", ")),
                };
                Problem::new("unknown_codebase", message, hint)
            }
            CodebaseError::Which(names) => Problem::new(
                "which_codebase",
                message,
                format!("Go into one, or give `--codebase` with one of: {}.", names.join(", ")),
            ),
            CodebaseError::None => {
                Problem::new("no_codebase", message, "Go into a git repository, or run `grove codebase add PATH`.")
            }
            CodebaseError::Unsaved { reasons, .. } => {
                let hint = "Commit or discard the changes there, then try again.";
                let reason = |(branch, why): (String, UnsavedWork)| {
                    ProblemReason::new(why.error_code(), format!("`{branch}` {why}."), unsaved_hint(&why, &branch))
                };
                let reasons = reasons.into_iter().map(reason).collect();
                Problem::new("unsaved_work", message, hint).with_reasons(reasons)
            }
        }
    }
}

/// Says what helps after a failed clone. It runs without a terminal, so nothing could be asked.
fn clone_hint(line: &str) -> &'static str {
    let says = |words: &[&str]| words.iter().any(|words| line.contains(words));
    if says(&["Host key verification failed"]) {
        "Connect once by hand, as in `ssh -T git@HOST`, check the host's key and accept it, then try again."
    } else if says(&["Permission denied"]) {
        "Add your SSH key to your account there and to your agent (`ssh-add`), or use an https address."
    } else if says(&["resolve host"]) {
        "Check the host's name and the network."
    } else if says(&["could not read Username", "Authentication failed"]) {
        "Set up a credential helper or an SSH key for this host, or use the address of a public repository."
    } else {
        "Check the address and your access to it."
    }
}

fn unsaved_hint(why: &UnsavedWork, branch: &str) -> String {
    match why {
        UnsavedWork::Changes | UnsavedWork::Untracked(_) => {
            format!("See `grove worktree exec {branch} -- git status`.")
        }
        UnsavedWork::Busy(_) => "Wait until it has ended.".to_owned(),
        UnsavedWork::Unknown(_) => format!("See `grove worktree show {branch}`."),
    }
}
