//! An environment for a piece of work.
//!
//! [`Isolation::create`] is the story: is there one already → claim the work in the store → let
//! the [`IsolationProvider`] make it → record it, or take everything back. The store's `creating`
//! row is the lock, so that two who ask at once get one environment.

mod adopt;
mod base;
mod create;
mod facts;
mod find;
pub(crate) mod journal;
pub(crate) mod mirror;
pub mod places;
mod provider;
mod reading;
mod recover;
mod registry;
pub mod resolve;
mod worktree;

use std::io;
use std::path::{Path, PathBuf};

use grove_git::GitError;
use grove_git::base::BaseError;
use grove_git::checked_out::CheckedOut;
use grove_git::finish::FinishError;
use grove_git::include::IncludeError;
use grove_git::push::PushError;
use grove_git::reading::ReadingError;
use grove_git::removal::RemovalError;
use grove_git::sync::SyncError;
use grove_git::worktree::AddError;
use grove_model::{BranchName, Status, WorkError};
use grove_store::StoreError;

use crate::cleanup::Full;
use crate::push::NoPush;
use crate::removal::Refusal;
use crate::settings::SettingsError;

pub use create::{CreatedBy, Hints, How, Isolation, New, Outcome, Wish, with_repository_settings};
pub use find::{find, find_latest};
pub use mirror::{Mirrored, Mirrors};
pub use provider::{Found, Health, IsolationProvider, IsolationRequest, Made, Unfinished};
pub use reading::Left;
pub use worktree::WorktreeProvider;

#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    #[error("the worktree for `{branch}` was not made")]
    Add { branch: BranchName, error: Box<AddError> },
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Base(#[from] BaseError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Work(#[from] WorkError),
    #[error("the files that the work needs could not be copied: {0}")]
    Include(#[from] IncludeError),
    #[error("the submodules could not be initialised: {0}")]
    Submodules(String),
    #[error("{} is outside of {}, where worktrees may be", path.display(), root.display())]
    OutsideRoot { path: PathBuf, root: PathBuf },
    #[error("{} is inside the repository's own git directory", path.display())]
    InsideGit { path: PathBuf },
    #[error("{} has {free} free and {wanted} are kept free", path.display())]
    LittleSpace { path: PathBuf, free: String, wanted: String },
    #[error("{work} has an environment on `{branch}` already, so it cannot start from another commit")]
    HasEnvironment { work: String, branch: BranchName },
    #[error("{work} works on `{branch}` already, at {}", path.display())]
    Held { work: String, branch: BranchName, path: PathBuf },
    #[error("{} could not be looked at: {why}", path.display())]
    Broken { path: PathBuf, why: String },
    #[error("{} is not a worktree of this codebase that could be adopted", path.display())]
    NotAdoptable { path: PathBuf },
    #[error("{} is on no branch", path.display())]
    OnNoBranch { path: PathBuf },
    #[error("no environment is called `{0}`")]
    NoSuch(String),
    #[error("`{name}` could be several environments: {}", candidates.join(", "))]
    Ambiguous { name: String, candidates: Vec<String> },
    #[error("the environment for {work} is being made by another process")]
    InTheMaking { work: String },
    #[error("{} is not there, and neither is the folder above it: its disk seems not to be mounted", .0.display())]
    NotMounted(PathBuf),
    #[error("reasons speak against it for `{}`", .0.environment.branch)]
    Refused(Box<Refusal>),
    #[error("{} is not this environment's worktree: {why}", path.display())]
    Foreign { path: PathBuf, why: String },
    #[error("{} was changed meanwhile", path.display())]
    ChangedMeanwhile { path: PathBuf },
    #[error("a command that runs in `{branch}` could not be ended")]
    StillRunning { branch: BranchName },
    #[error("nothing called `{0}` is in the trash")]
    NotInTrash(String),
    #[error("nothing is in the trash")]
    EmptyTrash,
    #[error("{work} cannot be brought back: {holder} has its place now")]
    Successor { work: String, holder: String },
    #[error("You have {} active worktrees for **{}** (limit reached)", .0.limit, .0.codebase)]
    Full(Box<Full>),
    #[error("`{branch}` is {status}, not hibernated")]
    NotHibernated { branch: BranchName, status: Status },
    /// Another branch than the recorded one is checked out, or none.
    #[error("the worktree of `{recorded}` is on {now}")]
    OtherBranch { recorded: BranchName, now: Box<CheckedOut>, named: Option<BranchName> },
    #[error(transparent)]
    Finish(Box<FinishError>),
    #[error(transparent)]
    Sync(Box<SyncError>),
    #[error(transparent)]
    NoPush(#[from] NoPush),
    #[error(transparent)]
    Push(Box<PushError>),
    #[error("`{branch}` was pushed, but its pull request was not opened: {why}")]
    Forge { branch: BranchName, why: String },
    #[error(transparent)]
    Removal(#[from] RemovalError),
    #[error("the files could not be laid out for reading")]
    NotLaidOut(Box<AddError>),
    #[error(transparent)]
    Reading(#[from] ReadingError),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl IsolationError {
    /// With a full disk named where git only says that it failed.
    pub(crate) fn explained(self, repository: &Path) -> Self {
        match self {
            IsolationError::Removal(error) => IsolationError::Removal(error.explained(repository)),
            other => other,
        }
    }
}
