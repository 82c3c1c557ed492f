//! The interface for kinds of isolation: worktrees now, containers and other machines later.

pub mod disk;
mod new_worktree;
pub mod trash;
pub mod worktree;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use grove_git::base::BaseCommit;
use grove_git::checked_out::CheckedOut;
use grove_git::diff::{DiffOptions, WorktreeDiff};
use grove_git::lock::{EnvironmentLock, LockFiles};
use grove_git::reading::{SnapshotError, SnapshotMark, SnapshotOutcome, SnapshotWorktree};
use grove_git::removal::check::RemovalSubject;
use grove_git::removal::{RegenerableNames, TrashManifest};
use grove_git::sync::SyncError;
use grove_git::worktree::{AddWorktreeError, BranchIntent, CreationJournal};
use grove_git::{GitError, RemovalCheck};
use grove_model::{BranchName, Codebase, CommitSha, Environment, EnvironmentId, Nonce, Work};

use crate::error::EnvironmentError;
use crate::provider::disk::{DiskFacts, PathState};
use crate::provider::trash::TrashedEnvironment;
use crate::settings::Settings;

/// Everything that a provider needs to know to create an environment.
pub struct ProvisionRequest<'a> {
    pub codebase: &'a Codebase,
    pub work: &'a Work,
    pub branch: &'a BranchName,
    pub path: &'a Path,
    /// The value of `--from`: any branch, tag or commit.
    pub from: Option<&'a str>,
    pub nonce: Nonce,
    /// The settings, including the repository's own.
    pub settings: &'a Settings,
    pub journal: &'a dyn CreationJournal,
}

/// A created environment, and how to undo it if the record cannot be written.
pub struct ProvisionedEnvironment {
    pub head: CommitSha,
    pub base: Option<BaseCommit>,
    /// The facts on disk, so that the caller need not look again.
    pub facts: DiskFacts,
    /// Notes for a person, one sentence each.
    pub notes: Vec<String>,
    pub unfinished: Box<dyn UnfinishedCreation>,
}

/// A creation that is not recorded yet.
#[async_trait]
pub trait UnfinishedCreation: Send {
    /// Removes the mark of an unfinished creation, once the record is written.
    fn mark_finished(&self) -> Result<(), EnvironmentError>;

    /// Removes everything that the creation made; returns what could not be removed.
    async fn take_back(self: Box<Self>) -> Vec<String>;
}

/// An environment as it exists outside of our records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEnvironment {
    pub path: PathBuf,
    /// `None` when it is on no branch.
    pub branch: Option<String>,
    pub head: Option<CommitSha>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvironmentHealth {
    Good,
    Missing,
    /// It is gone together with the folder above it.
    NotMounted,
    Bad(String),
}

/// A registration that would break git for the whole repository, and that was put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedEntry {
    /// The environment's folder, if the registration still named one.
    pub worktree: Option<PathBuf>,
    pub why: String,
    pub aside: PathBuf,
}

#[async_trait]
pub trait IsolationProvider: Send + Sync {
    /// Returns the value for the record's `provider` column.
    fn provider_name(&self) -> &'static str;

    /// Creates the complete environment, or leaves nothing.
    async fn create_environment(
        &self,
        request: &ProvisionRequest<'_>,
    ) -> Result<ProvisionedEnvironment, EnvironmentError>;

    /// Undoes a creation that was interrupted, by its nonce; returns the path that stays because a person or
    /// another program has put files there.
    async fn withdraw_creation(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        intent: Option<&BranchIntent>,
    ) -> Result<Option<PathBuf>, EnvironmentError>;

    /// Removes the mark of an unfinished creation from an environment that was recorded; tells whether there
    /// was one.
    fn clear_unfinished_mark(&self, codebase: &Codebase, environment: &Environment) -> Result<bool, EnvironmentError>;

    /// Releases what is left of an environment whose folder is gone, so that its branch is free.
    async fn forget_missing(&self, codebase: &Codebase, environment: &Environment) -> Result<(), EnvironmentError>;

    /// Returns what is at an environment's path, if it belongs to this codebase.
    async fn find_at_path(
        &self,
        codebase: &Codebase,
        path: &Path,
    ) -> Result<Option<FoundEnvironment>, EnvironmentError>;

    /// Returns all environments of a codebase, including those that other tools or people made; never the
    /// canonical checkout.
    async fn list_environments(&self, codebase: &Codebase) -> Result<Vec<FoundEnvironment>, EnvironmentError>;

    /// Checks that a worktree of another tool or a person at `path` can be adopted; changes nothing.
    async fn check_adoptable(
        &self,
        codebase: &Codebase,
        path: &Path,
    ) -> Result<Option<FoundEnvironment>, EnvironmentError>;

    async fn health_check(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<EnvironmentHealth, EnvironmentError>;

    /// Checks every reason against a removal, from the disk and from git. Changes nothing.
    async fn check_removal(&self, codebase: &Codebase, subject: RemovalSubject<'_>) -> RemovalCheck;

    /// An environment that is to go to the trash, or that the manifest says is there. `entry` is git's entry
    /// of one that is still in its place.
    fn trashed_environment(
        &self,
        codebase: &Codebase,
        manifest: TrashManifest,
        entry: Option<&Path>,
    ) -> Box<dyn TrashedEnvironment>;

    /// Looks at environments, several at once; what cannot be found out is an error with the reason.
    async fn inspect(&self, codebase: &Codebase, environments: &[Environment]) -> Vec<Result<DiskFacts, String>>;

    /// Finds what is at an environment's path, without asking git.
    fn path_state(&self, codebase: &Codebase, environment: &Environment) -> PathState;

    /// Tells whether git's entry of an environment leads back to its path.
    fn entry_points_to(&self, entry: &Path, path: &Path) -> bool;

    /// Returns the entry of an environment that only lost its `.git`, if nothing else is at its path.
    fn find_unlinked_entry(&self, codebase: &Codebase, environment: &Environment) -> io::Result<Option<PathBuf>>;

    /// Returns what is checked out at a path; `None` where nothing is.
    async fn checked_out(&self, codebase: &Codebase, path: &Path) -> Result<Option<CheckedOut>, GitError>;

    /// Returns the changes since a commit, committed or not, with untracked files. `entry` is git's entry.
    async fn diff_since(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        entry: &Path,
        began: &str,
        options: DiffOptions,
    ) -> Result<WorktreeDiff, GitError>;

    /// Counts the files that are not committed. `entry` is git's entry.
    async fn count_uncommitted(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        entry: &Path,
    ) -> Result<usize, GitError>;

    /// Tells whether nothing was done in an environment since it was created at `at`: no commit, no change, no
    /// file beyond those that the creation copied. `entry` is git's entry.
    async fn is_untouched(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        entry: &Path,
        at: &CommitSha,
    ) -> Result<bool, GitError>;

    /// Merges a commit into what is checked out in an environment; tells whether that changed anything. A
    /// conflict leaves everything as it was. `entry` is git's entry, `from` the name of the commit's source.
    async fn merge_commit(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        entry: &Path,
        from: &str,
        at: &CommitSha,
    ) -> Result<bool, SyncError>;

    /// Opens the lock that keeps an environment from being moved while something runs inside.
    fn open_lock(&self, codebase: &Codebase, environment: &Environment) -> io::Result<EnvironmentLock>;

    /// Returns the locks that an agent and everything it starts inside an environment hold.
    fn run_locks(&self, codebase: &Codebase, environment: &Environment) -> io::Result<LockFiles>;

    /// Returns the environments that have files of locks.
    fn locked_environments(&self, codebase: &Codebase) -> io::Result<BTreeSet<EnvironmentId>>;

    /// Deletes the files of the locks of an environment that is gone for good.
    fn delete_locks(&self, codebase: &Codebase, id: EnvironmentId) -> io::Result<()>;

    /// Puts registrations aside that would break git for the whole repository; pins what only they hold.
    async fn quarantine_broken(&self, codebase: &Codebase) -> Result<Vec<QuarantinedEntry>, EnvironmentError>;

    /// Deletes what ended creations and ended calls of git left; returns the names.
    fn sweep_leftovers(&self, codebase: &Codebase, ended: &[Nonce]) -> io::Result<Vec<String>>;

    /// Checks a commit out only to be read, at `path`, whose last part is the mark's nonce.
    async fn create_snapshot(
        &self,
        codebase: &Codebase,
        path: &Path,
        mark: SnapshotMark,
    ) -> Result<SnapshotWorktree, AddWorktreeError>;

    /// Deletes a snapshot that nothing uses any more, if nothing was written there.
    async fn end_snapshot(
        &self,
        codebase: &Codebase,
        snapshot: SnapshotWorktree,
        regenerable: &RegenerableNames,
    ) -> Result<SnapshotOutcome, SnapshotError>;

    /// Returns all snapshots of a codebase, of every owner.
    fn list_snapshots(&self, codebase: &Codebase) -> io::Result<Vec<SnapshotWorktree>>;
}
