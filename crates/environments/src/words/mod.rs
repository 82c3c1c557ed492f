//! The text of every refusal and error: what is wrong, and what to do.
//!
//! The other modules return types; this module turns them into text, so that terminal, chat, page and API all
//! say the same. Each text is one sentence, with a code for scripts and a useful hint.

mod codebases;
mod create;
pub mod done;
mod git;
mod index;
mod integrate;
mod removal;
pub mod state;

use grove_git::holder::HolderState;
use grove_git::reading::SnapshotError;
use grove_model::{BranchNameError, WorkError};
use grove_store::StoreError;

use crate::error::EnvironmentError;
use crate::problem::{Problem, sentence};
use crate::settings::{ReloadOutcome, SettingsError};

pub use index::index_repair;
pub use removal::describe_reason;

impl From<SettingsError> for Problem {
    fn from(error: SettingsError) -> Self {
        Problem::new("bad_setting", format!("{error}."), error.hint)
    }
}

/// Says which settings of the edited file are not in use, and what to do; `None` if all are.
pub fn settings_notice(reload: &ReloadOutcome) -> Option<String> {
    if let Some(error) = &reload.error {
        return Some(format!("{error} The server keeps its previous settings."));
    }
    let keys: Vec<String> = reload.needs_restart.iter().map(|key| format!("`{key}`")).collect();
    (!keys.is_empty()).then(|| format!("Restart the server to use the new {}.", keys.join(", ")))
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

impl From<EnvironmentError> for Problem {
    fn from(error: EnvironmentError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            EnvironmentError::Create(error) => error.into(),
            EnvironmentError::Remove(error) => error.into(),
            EnvironmentError::Integrate(error) => error.into(),
            EnvironmentError::Git(error) => error.into(),
            EnvironmentError::Base(error) => error.into(),
            EnvironmentError::Store(error) => error.into(),
            EnvironmentError::Settings(error) => error.into(),
            EnvironmentError::Broken { .. } => {
                Problem::new("environment_broken", message, "Nothing was changed; `grove doctor` says more.")
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
            EnvironmentError::Foreign { .. } => {
                Problem::new("foreign_repository", message, "Nothing there is ever removed; `grove doctor` says more.")
            }
            EnvironmentError::NotLaidOut(error) => {
                let problem = Problem::from(*error);
                let why = lowercase_first_word(problem.message.as_str());
                problem.with_message(format!("The files could not be laid out for reading: {why}"))
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
