//! The text of git's errors.

use grove_git::GitError;
use grove_git::base::BaseError;
use grove_git::repository::RepositoryError;

use crate::problem::{Problem, sentence};
use crate::words::index_repair;

impl From<GitError> for Problem {
    fn from(error: GitError) -> Self {
        if let Some(hint) = index_repair(&error.to_string(), None) {
            return Problem::new("index_damaged", sentence(&error.to_string()), hint);
        }
        let (code, hint) = match &error {
            GitError::NotInstalled => ("git_missing", "Install git 2.39 or newer."),
            GitError::Interrupted { .. } => ("interrupted", "Nothing was left behind; start it again when you like."),
            GitError::TimedOut { .. } => ("git_timed_out", "Check the disk and the network, then try again."),
            GitError::NoCredential { .. } => {
                ("no_credential", "Check the token or the App in `adapters.github`; `grove doctor` says more.")
            }
            GitError::Astray { .. } => {
                ("astray", "Take it out of the repository's `.git/config`; your own git config may have it.")
            }
            GitError::Spawn(_) => ("git_failed", "Check the machine's limits on processes and files, then try again."),
            _ => ("git_failed", "Run the same command by hand in the repository to see more."),
        };
        Problem::new(code, sentence(&error.to_string()), hint)
    }
}

impl From<RepositoryError> for Problem {
    fn from(error: RepositoryError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            RepositoryError::NotThere(_) => {
                Problem::new("not_found", message, "Give a path that exists, or an address to clone from.")
            }
            RepositoryError::NotARepository(_) => Problem::new(
                "not_a_repository",
                message,
                "Go into a git repository, or make one there with `git init`.",
            ),
            RepositoryError::NotTrusted(path) => Problem::new(
                "not_trusted",
                message,
                format!("If you trust it: `git config --global --add safe.directory {}`.", path.display()),
            ),
            RepositoryError::NoMainCheckout(_) => {
                Problem::new("no_main_checkout", message, "Give the path of the main checkout instead.")
            }
            RepositoryError::Git(error) => error.into(),
        }
    }
}

impl From<BaseError> for Problem {
    fn from(error: BaseError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            BaseError::UnknownRemote { .. } => {
                Problem::new("unknown_remote", message, "Set `worktree.remote` to a remote that `git remote` lists.")
            }
            BaseError::SeveralRemotes(_) => {
                Problem::new("several_remotes", message, "Say which one with the setting `worktree.remote`.")
            }
            BaseError::NoBase { remote } => Problem::new(
                "no_base",
                message,
                format!("Run `git remote set-head {remote} --auto`, set `worktree.base_branch`, or give `--from`."),
            ),
            BaseError::EmptyRemote { remote } => Problem::new(
                "no_base",
                message,
                format!(
                    "Push a first commit with `git push -u {remote} HEAD`, then run `git remote set-head {remote} --auto`; or give `--from`."
                ),
            ),
            BaseError::Detached => {
                Problem::new("no_base", message, "Check out a branch, set `worktree.base_branch`, or give `--from`.")
            }
            BaseError::Unborn(_) => Problem::new("no_base", message, "Make a first commit."),
            BaseError::Unknown(_) => {
                Problem::new("unknown_base", message, "Name a branch, tag or commit that `git log` can show.")
            }
            BaseError::Unreachable { remote, .. } => Problem::new(
                "remote_unreachable",
                message,
                format!(
                    "Check the network and `git fetch {remote}`, or start from something known here with `--from`."
                ),
            ),
            BaseError::Diverged { name, remote } => Problem::new(
                "diverged_base",
                message,
                format!("Say which one: `--from {remote}/{name}` or `--from refs/heads/{name}`."),
            ),
            BaseError::Io(_) => {
                Problem::new("not_writable", message, "Give yourself write access to the repository's .git directory.")
            }
            BaseError::Git(error) => error.into(),
        }
    }
}
