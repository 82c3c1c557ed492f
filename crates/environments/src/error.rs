//! Errors and refusals of operations on environments.

use std::io;
use std::path::{Path, PathBuf};

use grove_git::GitError;
use grove_git::base::BaseError;
use grove_git::checked_out::CheckedOut;
use grove_git::finish::FinishError;
use grove_git::include::IncludeError;
use grove_git::push::PushError;
use grove_git::reading::SnapshotError;
use grove_git::removal::RemovalError;
use grove_git::sync::SyncError;
use grove_git::worktree::AddWorktreeError;
use grove_model::{BranchName, Environment, Question, RemovalAnswer, Status, WorkError};
use grove_store::StoreError;

use crate::redact::Redactor;
use crate::settings::SettingsError;

/// An operation on an environment failed or was refused. The causes of one operation alone have a type of their
/// own.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error(transparent)]
    Remove(#[from] RemoveError),
    #[error(transparent)]
    Integrate(#[from] IntegrateError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Base(#[from] BaseError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("{} could not be looked at: {why}", path.display())]
    Broken { path: PathBuf, why: String },
    #[error("no environment is called `{0}`")]
    NoSuch(String),
    #[error("`{name}` could be several environments: {}", candidates.join(", "))]
    Ambiguous { name: String, candidates: Vec<String> },
    #[error("the environment for {work} is being made by another process")]
    InTheMaking { work: String },
    #[error("{} is not there, and neither is the folder above it: its disk seems not to be mounted", .0.display())]
    NotMounted(PathBuf),
    #[error("reasons speak against it for `{}`", .0.environment.branch)]
    Refused(Box<ActionRefusal>),
    #[error("{} is not this environment's worktree: {why}", path.display())]
    Foreign { path: PathBuf, why: String },
    #[error("the files could not be laid out for reading")]
    NotLaidOut(Box<AddWorktreeError>),
    #[error(transparent)]
    Reading(#[from] SnapshotError),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

/// An environment was not created or adopted.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("the worktree for `{branch}` was not made")]
    Add { branch: BranchName, error: Box<AddWorktreeError> },
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
    #[error("{} is not a worktree of this codebase that could be adopted", path.display())]
    NotAdoptable { path: PathBuf },
    #[error("{} is on no branch", path.display())]
    OnNoBranch { path: PathBuf },
    #[error("the init script of `{branch}` failed: {why}")]
    InitFailed { branch: BranchName, why: String, last_lines: String },
    #[error("You have {} active worktrees for **{}** (limit reached)", .0.limit, .0.codebase)]
    Full(Box<WorktreeLimit>),
}

/// An environment was not removed, hibernated or brought back.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
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
    #[error("`{branch}` is {status}, not hibernated")]
    NotHibernated { branch: BranchName, status: Status },
    #[error(transparent)]
    Removal(#[from] RemovalError),
}

/// The work of an environment was not merged, updated or pushed.
#[derive(Debug, thiserror::Error)]
pub enum IntegrateError {
    /// Another branch than the recorded one is checked out, or none.
    #[error("the worktree of `{recorded}` is on {now}")]
    OtherBranch { recorded: BranchName, now: Box<CheckedOut>, named: Option<BranchName> },
    #[error(transparent)]
    Finish(Box<FinishError>),
    #[error(transparent)]
    Sync(Box<SyncError>),
    #[error(transparent)]
    NoPush(#[from] PushRefusedError),
    #[error(transparent)]
    Push(Box<PushError>),
    #[error("`{branch}` was pushed, but its pull request was not opened: {why}")]
    Forge { branch: BranchName, why: String },
}

impl From<WorkError> for EnvironmentError {
    fn from(error: WorkError) -> Self {
        CreateError::from(error).into()
    }
}

impl From<IncludeError> for EnvironmentError {
    fn from(error: IncludeError) -> Self {
        CreateError::from(error).into()
    }
}

impl From<RemovalError> for EnvironmentError {
    fn from(error: RemovalError) -> Self {
        RemoveError::from(error).into()
    }
}

impl From<PushRefusedError> for EnvironmentError {
    fn from(error: PushRefusedError) -> Self {
        IntegrateError::from(error).into()
    }
}

impl EnvironmentError {
    /// Names a full disk as the cause where git only says that it failed.
    pub(crate) fn with_disk_explanation(self, repository: &Path) -> Self {
        match self {
            EnvironmentError::Remove(RemoveError::Removal(error)) => {
                RemoveError::Removal(error.with_disk_cause(repository)).into()
            }
            other => other,
        }
    }
}

/// Returns the text that the record of a failed creation keeps.
pub fn kept_error(error: &EnvironmentError) -> String {
    let text = match error {
        EnvironmentError::Create(CreateError::Add { error, .. }) => error.to_string(),
        other => other.to_string(),
    };
    Redactor::default().redact_text(&text)
}

/// The limit on worktrees is reached; a person decides what goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeLimit {
    pub codebase: String,
    pub limit: u64,
    pub merged: usize,
    pub stale: usize,
    pub active: usize,
    pub stale_days: u64,
}

/// The reason why a branch is not pushed, found before the remote or the forge is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushRefusedError {
    #[error("pushing is switched off (`push = \"never\"`)")]
    SwitchedOff,
    #[error("`{branch}` holds pull request #{number} for review, and its author pushes it")]
    ForReview { branch: BranchName, number: u64 },
    #[error("`{branch}` is the default branch, which is not pushed from here")]
    DefaultBranch { branch: BranchName },
    #[error("this repository has no remote")]
    NoRemote,
    #[error("no forge is connected that could open a pull request for `{codebase}`")]
    NoForge { codebase: String },
    #[error("it is not known which branch `{branch}` should go into")]
    NoBase { branch: BranchName },
}

/// A refusal: the environment and every reason against the action.
#[derive(Clone, Debug)]
pub struct ActionRefusal {
    pub environment: Environment,
    pub reasons: Vec<(Question, RemovalAnswer)>,
    pub keep_days: u64,
    pub action: RefusedAction,
}

/// The action that was refused, since each command has other ways out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedAction {
    Remove,
    /// The removal at the end of a finish: the work is already merged.
    RemoveMerged,
    Finish,
    Sync,
    Hibernate,
}
