//! The text of every refusal in a conversation: what is wrong, and what to do.
//!
//! The other modules name the refusal; this module turns it into a [`Problem`]. Texts that are not refusals
//! are in [`crate::replies`].

mod custom;
mod usage;

use std::io;
use std::path::Path;

use grove_environments::problem::Problem;
use grove_model::Environment;

pub use usage::*;

const CHOOSE_FOLDER_HINT: &str = "Choose a directory that is there, by its whole path.";

/// The conversation has no codebase, and the command needs one.
pub fn no_codebase() -> Problem {
    let hint = "Choose one with `/codebase NAME`; `/codebases` lists them.";
    Problem::new("no_codebase", "This conversation has no codebase.", hint)
}

/// The codebase of the conversation was removed.
pub fn codebase_gone() -> Problem {
    let message = "The codebase of this conversation is not registered any more, so the agent was not started.";
    Problem::new("no_codebase", message, "Choose another with `/codebase NAME`; `/codebases` lists them.")
}

/// A directory can be chosen only in a conversation without a codebase.
pub fn cwd_with_codebase(codebase: &str) -> Problem {
    let message = format!("This conversation is about `{codebase}`, so it works in its worktrees.");
    Problem::new("has_codebase", message, "Use `/worktree create NAME` for another place.")
}

/// The address of a clone is a path, and the sender may not name every path.
pub fn clone_of_local_path(address: &str) -> Problem {
    let message = format!("`{address}` is on this machine.");
    Problem::new("outside_root", message, "Use `/register PATH` for a repository of this machine.")
}

/// The address of a clone came with credentials.
pub fn clone_with_credentials() -> Problem {
    let message = "The address came with credentials, and those of a message are never kept.";
    let hint =
        "Give it without them: git asks its own credential helper. Or run `grove codebase add URL` in a terminal.";
    Problem::new("no_credentials", message, hint)
}

/// The repository has no init script.
pub fn no_init_script(branch: &str) -> Problem {
    let message = format!("The base of `{branch}` has no init script.");
    Problem::new("no_init_script", message, "Commit one as `.grove/worktree-init.sh` to the base branch.")
}

/// The init script is not approved.
pub fn script_not_approved(path: &str) -> Problem {
    let message = format!("The init script `{path}` is not approved, so it was not run.");
    Problem::new("not_approved", message, "`/trust` shows it; `/trust --yes` approves it.")
}

/// The conversation works in no worktree, and the command is about its own.
pub fn no_own_worktree() -> Problem {
    let hint = "Say what should be done, or go to a worktree with `/worktree link NAME`.";
    Problem::new("no_worktree", "This conversation works in no worktree.", hint)
}

/// The conversation works in no worktree, and the command names none.
pub fn no_named_worktree() -> Problem {
    let hint = "Name one; `/worktree list` shows them.";
    Problem::new("no_worktree", "This conversation works in no worktree.", hint)
}

/// There is no worktree with the name to link to.
pub fn no_worktree_to_link(name: &str) -> Problem {
    Problem::new("not_found", format!("No worktree found for {name}"), "`/worktree list` shows them.")
}

/// The directory that the conversation chose is gone.
pub fn no_cwd(path: &Path) -> Problem {
    let message = format!("{} is not there, so the agent was not started.", path.display());
    Problem::new("missing", message, "Choose another directory with `/cwd PATH`.")
}

/// The folder of a conversation without a codebase cannot be created.
pub fn no_scratch(path: &Path, error: &io::Error) -> Problem {
    let message = format!("{} cannot be made, so the agent was not started: {error}.", path.display());
    Problem::new("not_writable", message, "Give grove write access to its home.")
}

/// The worktree was moved whenever an agent was about to start.
pub fn unstable_place() -> Problem {
    let message = "The worktree was moved again and again, so the agent was not started.";
    Problem::new("busy", message, "Wait a moment and say it again.")
}

pub fn relative_folder(path: &Path) -> Problem {
    Problem::new("bad_path", format!("`{}` is not a whole path.", path.display()), CHOOSE_FOLDER_HINT)
}

pub fn no_folder(path: &Path) -> Problem {
    Problem::new("not_found", format!("{} is not a directory.", path.display()), CHOOSE_FOLDER_HINT)
}

/// The sender may not name this folder.
pub fn folder_outside_root(folder: &Path) -> Problem {
    let message = format!("{} is outside of what may be used from here.", folder.display());
    Problem::new("outside_root", message, "Ask for `security.allowed_root` to be changed.")
}

pub fn folder_of_grove(folder: &Path) -> Problem {
    let message = format!("{} holds what belongs to grove itself.", folder.display());
    Problem::new("outside_root", message, CHOOSE_FOLDER_HINT)
}

pub fn folder_in_main_checkout(folder: &Path, codebase: &str) -> Problem {
    let message = format!("{} is in the main checkout of `{codebase}`.", folder.display());
    Problem::new("main_checkout", message, format!("Use `/codebase {codebase}`, and get a worktree of your own."))
}

pub fn folder_in_worktree(folder: &Path, codebase: &str, environment: &Environment) -> Problem {
    let message = format!("{} is the worktree of {}.", folder.display(), environment.work);
    let hint = format!("Use `/codebase {codebase}` and `/worktree link {}`.", environment.branch);
    Problem::new("has_environment", message, hint)
}
