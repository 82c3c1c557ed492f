//! The text of every refusal and error: what is wrong, and what to do.
//!
//! The other modules return types; this module turns them into text, so that terminal, chat, page and API all
//! say the same. Each text is one sentence, with a code for scripts and a useful hint.

pub mod done;
mod index;
mod push;
mod removal;

use grove_git::GitError;
use grove_git::base::BaseError;
use grove_git::finish::{FinishError, FinishMethodError};
use grove_git::holder::HolderState;
use grove_git::reading::SnapshotError;
use grove_git::repository::RepositoryError;
use grove_git::sync::SyncError;
use grove_git::worktree::{AddWorktreeError, TargetError, WorktreeFlaw};
use grove_model::{BranchNameError, WorkError};
use grove_store::StoreError;

use crate::codebases::CodebaseError;
use crate::error::{EnvironmentError, WorktreeLimit};
use crate::problem::{Problem, ProblemReason, sentence};
use crate::settings::SettingsError;

pub use index::index_repair;
pub use removal::describe_reason;

impl From<SettingsError> for Problem {
    fn from(error: SettingsError) -> Self {
        Problem::new("bad_setting", format!("{error}."), error.hint)
    }
}

impl From<BranchNameError> for Problem {
    fn from(error: BranchNameError) -> Self {
        Problem::new(
            "bad_branch_name",
            sentence(&error.to_string()),
            "Choose a name such as `fix-login` or `feature/login`.",
        )
    }
}

impl From<WorkError> for Problem {
    fn from(error: WorkError) -> Self {
        match error {
            WorkError::Branch(error) => error.into(),
            WorkError::UnknownKind(_) => {
                Problem::new("bad_work", sentence(&error.to_string()), "Give one of them with `--kind`.")
            }
            _ => Problem::new("bad_work", sentence(&error.to_string()), "Give another id with `--id`."),
        }
    }
}

impl From<FinishMethodError> for Problem {
    fn from(error: FinishMethodError) -> Self {
        Problem::new("usage", sentence(&error.to_string()), "Give one of them.")
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let (code, hint) = match &error {
            StoreError::Busy => ("store_busy", "Wait for the other process, then try again.".to_owned()),
            StoreError::Unreachable(_) => {
                ("store_unreachable", "Check that the database runs and that `DATABASE_URL` is right.".to_owned())
            }
            StoreError::Corrupt { .. } => (
                "store_corrupt",
                "Nothing was changed; put a backup in its place, or move it away to begin anew.".to_owned(),
            ),
            StoreError::NewerSchema { .. } => ("store_newer", "Nothing was changed; update grove.".to_owned()),
            StoreError::ForeignSchema(_) => {
                ("store_foreign", "Nothing was changed; use another database for this grove.".to_owned())
            }
            StoreError::BadAddress(_) => {
                ("bad_setting", "Set `store.url` to sqlite://PATH or postgres://USER@HOST/DATABASE.".to_owned())
            }
            StoreError::NoFolder { .. } | StoreError::Unopenable { .. } => {
                ("store_unopenable", "Give yourself access to it, or set GROVE_HOME to another directory.".to_owned())
            }
            StoreError::LostTurn => ("conflict", "It goes on there; nothing has to be done.".to_owned()),
            StoreError::NameTaken(_) => ("name_taken", "Choose another with `--name`.".to_owned()),
            StoreError::Moved { .. } => ("conflict", "Another process changed it meanwhile; try again.".to_owned()),
            StoreError::Row { .. } => {
                ("store_row", "Nothing was changed; please report this with the text above.".to_owned())
            }
            StoreError::Other(_) => ("store_failed", "Try again; if it stays, check the database's log.".to_owned()),
        };
        Problem::new(code, sentence(&error.to_string()), hint)
    }
}

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

/// Says how to free a branch whose worktree's folder is gone.
fn gone_holder_hint(state: HolderState, at: &std::path::Display<'_>) -> Option<String> {
    match state {
        HolderState::MainCheckout | HolderState::Worktree => None,
        HolderState::Gone => {
            Some("Its folder is gone; let git forget it with `git worktree prune`, then try again.".to_owned())
        }
        HolderState::GoneAndLocked => Some(format!(
            "Its folder is gone and the worktree is locked: mount its disk, or run `git worktree unlock {at}` and `git worktree prune`, then try again."
        )),
    }
}

/// Returns the code and the hint for the system's message about a failed write.
fn disk_trouble(line: &str) -> (&'static str, &'static str) {
    let line = line.to_ascii_lowercase();
    if line.contains("no space left") || line.contains("quota exceeded") {
        ("disk_full", "Free some space, or set `worktree.base` to a larger disk.")
    } else if line.contains("permission denied") || line.contains("read-only") || line.contains("not permitted") {
        ("permission_denied", "Give yourself write access there, or set `worktree.base` to another directory.")
    } else {
        ("git_failed", "Nothing was left behind; correct the cause and try again.")
    }
}

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
            CodebaseError::CloneFailed { .. } => {
                Problem::new("clone_failed", message, "Check the address and your access to it.")
            }
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
                let hint = "Commit or discard the changes there, then try again.".to_owned();
                let reasons = reasons
                    .into_iter()
                    .map(|(branch, why)| ProblemReason {
                        code: why.error_code(),
                        message: format!("`{branch}` {why}."),
                        hint: why.resolve_hint(&branch),
                    })
                    .collect();
                Problem { code: "unsaved_work", message, hint, reasons }
            }
        }
    }
}

impl From<EnvironmentError> for Problem {
    fn from(error: EnvironmentError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            EnvironmentError::Add { branch, error } => {
                let problem = Problem::from(*error);
                Problem {
                    message: format!(
                        "The worktree for `{branch}` was not made: {}",
                        lowercase_first_word(&problem.message)
                    ),
                    ..problem
                }
            }
            EnvironmentError::Git(error) => error.into(),
            EnvironmentError::Base(error) => error.into(),
            EnvironmentError::Store(error) => error.into(),
            EnvironmentError::Settings(error) => error.into(),
            EnvironmentError::Work(error) => error.into(),
            EnvironmentError::Include(_) => {
                Problem::new("git_failed", message, "Nothing was left behind; correct the cause and try again.")
            }
            EnvironmentError::Submodules(_) => Problem::new(
                "submodules_failed",
                message,
                "Nothing was left behind. Correct the cause, or set `worktree.submodules` to `true` to go on without \
                 what cannot be had, or to `false` to leave submodules alone.",
            ),
            EnvironmentError::OutsideRoot { .. } => Problem::new(
                "outside_root",
                message,
                "Set `worktree.base` to a directory below it, or change `security.allowed_root`.",
            ),
            EnvironmentError::InsideGit { .. } => {
                Problem::new("bad_place", message, "Set `worktree.base` to a directory outside of it.")
            }
            EnvironmentError::LittleSpace { .. } => Problem::new(
                "disk_full",
                message,
                "Free some space, set `worktree.base` to a larger disk, or lower `limits.min_free_disk`.",
            ),
            EnvironmentError::HasEnvironment { .. } => Problem::new(
                "branch_exists",
                message,
                "Leave `--from` away to use it as it is, or choose another name.",
            ),
            EnvironmentError::Held { .. } => {
                Problem::new("branch_held", message, "Use that one, or choose another name.")
            }
            EnvironmentError::Broken { .. } => {
                Problem::new("environment_broken", message, "Nothing was changed; `grove doctor` says more.")
            }
            EnvironmentError::NotAdoptable { .. } => Problem::new(
                "not_adoptable",
                message,
                "`grove worktree orphans` lists those that can be; the main checkout never is.",
            ),
            EnvironmentError::OnNoBranch { .. } => {
                Problem::new("not_adoptable", message, "Check a branch out there first.")
            }
            EnvironmentError::NoSuch(_) => Problem::new(
                "not_found",
                message,
                "`grove worktree list` shows them; name a branch, a work such as issue-42, or an id.",
            ),
            EnvironmentError::Ambiguous { .. } => Problem::new("ambiguous", message, "Give more of the id."),
            EnvironmentError::InTheMaking { .. } => Problem::new("busy", message, "Wait a moment and try again."),
            EnvironmentError::NotMounted { .. } => {
                Problem::new("not_mounted", message, "Mount the disk, then try again.")
            }
            EnvironmentError::Refused(refusal) => removal::refusal_problem(&refusal),
            EnvironmentError::Foreign { .. } => Problem::new(
                "foreign_repository",
                message,
                "It was left alone, and `--force` does not change that; `grove doctor` says more.",
            ),
            EnvironmentError::ChangedMeanwhile { .. } => {
                Problem::new("changed_meanwhile", message, "Nothing was removed; look at it and try again.")
            }
            EnvironmentError::StillRunning { .. } => {
                Problem::new("live_run", message, "Nothing was removed; end it yourself and try again.")
            }
            EnvironmentError::NotInTrash(_) => {
                Problem::new("not_found", message, "`grove worktree trash list` shows what can be brought back.")
            }
            EnvironmentError::EmptyTrash => {
                Problem::new("not_found", message, "`grove worktree list` shows what is there.")
            }
            EnvironmentError::Successor { .. } => {
                Problem::new("successor", message, "Remove that one first, then undo this one.")
            }
            EnvironmentError::Full(full) => no_room(&full, message),
            EnvironmentError::NotHibernated { .. } => {
                Problem::new("not_hibernated", message, "`grove worktree list` shows which are.")
            }
            EnvironmentError::OtherBranch { recorded, now, named } => {
                let other = match (named, now.branch_name()) {
                    (Some(named), _) => format!("`{named}` is not checked out there; switch to it first"),
                    (None, Some(now)) => format!("Say which one is meant: `--branch {now}` or `--branch {recorded}`"),
                    (None, None) => format!("Switch to a branch there, or say `--branch {recorded}`"),
                };
                Problem::new("other_branch", message, format!("{other}. Nothing was done."))
            }
            EnvironmentError::Finish(error) => finish_failed(*error, message),
            EnvironmentError::Sync(error) => match *error {
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
            EnvironmentError::NoPush(error) => push::not_pushed(&error, message),
            EnvironmentError::Push(error) => push::push_problem(*error, message),
            EnvironmentError::Forge { .. } => {
                Problem::new("forge_failed", message, "`/pr` tries it again; or open it by hand.")
            }
            EnvironmentError::Removal(error) => error.into(),
            EnvironmentError::NotLaidOut(error) => {
                let problem = Problem::from(*error);
                let message =
                    format!("The files could not be laid out for reading: {}", lowercase_first_word(&problem.message));
                Problem { message, ..problem }
            }
            EnvironmentError::Reading(SnapshotError::Git(error)) => error.into(),
            EnvironmentError::Reading(SnapshotError::Io { .. }) => {
                Problem::new("not_writable", message, "Give yourself write access there, and run `grove doctor`.")
            }
            EnvironmentError::Io { source, .. } => {
                let (code, hint) = disk_trouble(&source.to_string());
                let code = if code == "git_failed" { "not_writable" } else { code };
                Problem::new(code, message, hint)
            }
        }
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

/// Describes a reached limit: the current state, and what can be done.
fn no_room(full: &WorktreeLimit, message: String) -> Problem {
    let line = |code: &'static str, message: String, hint: &str| ProblemReason { code, message, hint: hint.to_owned() };
    let reasons = vec![
        line("merged", format!("{} merged (can auto-remove)", full.merged), "/worktree cleanup merged"),
        line(
            "stale",
            format!("{} stale (no activity in {}+ days)", full.stale, full.stale_days),
            "/worktree cleanup stale",
        ),
        line("active", format!("{} active", full.active), "/worktree remove <name>"),
    ];
    let hint = format!(
        "Options: `grove worktree cleanup merged` ({}), `grove worktree cleanup stale` ({}), `grove worktree list`, `grove worktree remove <name>`.",
        full.merged, full.stale
    );
    Problem { code: "limit_reached", message, hint, reasons }
}

/// Prepares a sentence to be part of another one: only a capital that begins a plain word is lowered.
fn lowercase_first_word(sentence: &str) -> String {
    let mut chars = sentence.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => sentence.to_owned(),
    }
}
