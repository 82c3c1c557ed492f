//! The provider that isolates by git worktree.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use grove_git::checked_out::CheckedOut;
use grove_git::diff::{self, DiffOptions, WorktreeDiff};
use grove_git::lock::{EnvironmentLock, LockFiles};
use grove_git::parse::{WorktreeEntry, WorktreeHead};
use grove_git::push::count_uncommitted;
use grove_git::reading::{self, SnapshotError, SnapshotMark, SnapshotOutcome, SnapshotWorktree, is_reading};
use grove_git::removal::check::{RemovalSubject, check_removal};
use grove_git::removal::{RegenerableNames, TrashManifest, TrashedWorktree};
use grove_git::sync::{self, SyncError};
use grove_git::worktree::{self, AddWorktreeError, BranchIntent, WithdrawOutcome};
use grove_git::{Git, GitError, GitLocation, RemovalCheck, Repository, leftovers, links, quarantine};
use grove_model::{Codebase, CommitSha, Environment, EnvironmentId, Nonce};

use crate::error::{CreateError, EnvironmentError};
use crate::provider::disk::{self, DiskFacts, PathState, facts_of, on_disk};
use crate::provider::trash::{TrashedEnvironment, WorktreeInTrash};
use crate::provider::{
    EnvironmentHealth, FoundEnvironment, IsolationProvider, ProvisionRequest, ProvisionedEnvironment, QuarantinedEntry,
    new_worktree,
};

#[derive(Clone, Debug)]
pub struct WorktreeProvider {
    git: Git,
}

impl WorktreeProvider {
    pub fn new(git: Git) -> Self {
        Self { git }
    }

    fn open_repository(&self, codebase: &Codebase) -> Repository {
        Repository::from_record(&self.git, &codebase.default_cwd, &codebase.git_common_dir)
    }
}

#[async_trait]
impl IsolationProvider for WorktreeProvider {
    fn provider_name(&self) -> &'static str {
        "worktree"
    }

    async fn create_environment(
        &self,
        request: &ProvisionRequest<'_>,
    ) -> Result<ProvisionedEnvironment, EnvironmentError> {
        new_worktree::create_worktree(self.open_repository(request.codebase), request).await
    }

    async fn withdraw_creation(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        intent: Option<&BranchIntent>,
    ) -> Result<Option<PathBuf>, EnvironmentError> {
        let repo = self.open_repository(codebase);
        let withdrawn =
            worktree::withdraw_creation(&repo, &environment.path, &environment.branch, intent, environment.nonce).await;
        let failed = |error| {
            EnvironmentError::Create(CreateError::Add { branch: environment.branch.clone(), error: Box::new(error) })
        };
        Ok(match withdrawn.map_err(failed)? {
            WithdrawOutcome::Whole => None,
            WithdrawOutcome::Kept(path) => Some(path),
        })
    }

    async fn forget_missing(&self, codebase: &Codebase, environment: &Environment) -> Result<(), EnvironmentError> {
        let forgotten = quarantine::quarantine_gone_worktree(&codebase.git_common_dir, &environment.path)
            .map_err(|source| EnvironmentError::Io { what: "git's entry cannot be put aside".to_owned(), source })?;
        if let Some(aside) = forgotten {
            quarantine::pin_quarantined(&self.open_repository(codebase), &aside).await?;
        }
        Ok(())
    }

    fn clear_unfinished_mark(&self, codebase: &Codebase, environment: &Environment) -> Result<bool, EnvironmentError> {
        let settled = worktree::unlock_finished(&self.open_repository(codebase), environment.nonce);
        settled.map_err(|source| EnvironmentError::Io { what: "the worktree cannot be unlocked".to_owned(), source })
    }

    async fn find_at_path(
        &self,
        codebase: &Codebase,
        path: &Path,
    ) -> Result<Option<FoundEnvironment>, EnvironmentError> {
        Ok(self.list_environments(codebase).await?.into_iter().find(|found| found.path == path))
    }

    async fn list_environments(&self, codebase: &Codebase) -> Result<Vec<FoundEnvironment>, EnvironmentError> {
        let entries = self.open_repository(codebase).list_worktrees().await?;
        // The first is the canonical checkout. A snapshot is only read and must not be used.
        let reading = |entry: &&WorktreeEntry| entry.locked.as_deref().is_some_and(is_reading);
        Ok(entries.iter().skip(1).filter(|entry| !reading(entry)).map(to_found_environment).collect())
    }

    async fn check_adoptable(
        &self,
        codebase: &Codebase,
        path: &Path,
    ) -> Result<Option<FoundEnvironment>, EnvironmentError> {
        let Some(found) = self.find_at_path(codebase, path).await? else { return Ok(None) };
        // A path that git lists may be gone, or another repository may be there now.
        let there = links::entry_of(path, &codebase.git_common_dir).map_err(|source| EnvironmentError::Io {
            what: format!("{} cannot be looked at", path.display()),
            source,
        })?;
        Ok(there.map(|_| found))
    }

    async fn health_check(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<EnvironmentHealth, EnvironmentError> {
        Ok(match facts_of(&self.git, codebase, std::slice::from_ref(environment)).await.remove(0) {
            Ok(DiskFacts::Present(_)) => EnvironmentHealth::Good,
            Ok(DiskFacts::Missing) => EnvironmentHealth::Missing,
            Ok(DiskFacts::NotMounted) => EnvironmentHealth::NotMounted,
            Err(why) => EnvironmentHealth::Bad(why),
        })
    }

    async fn check_removal(&self, codebase: &Codebase, subject: RemovalSubject<'_>) -> RemovalCheck {
        Box::pin(check_removal(&self.open_repository(codebase), subject)).await
    }

    fn trashed_environment(
        &self,
        codebase: &Codebase,
        manifest: TrashManifest,
        entry: Option<&Path>,
    ) -> Box<dyn TrashedEnvironment> {
        let repo = self.open_repository(codebase);
        let trashed = TrashedWorktree::new(&repo, manifest);
        let entry = entry.map_or_else(|| trashed.entry_in_trash(), Path::to_owned);
        Box::new(WorktreeInTrash { repo, trashed, entry })
    }

    async fn inspect(&self, codebase: &Codebase, environments: &[Environment]) -> Vec<Result<DiskFacts, String>> {
        facts_of(&self.git, codebase, environments).await
    }

    fn path_state(&self, codebase: &Codebase, environment: &Environment) -> PathState {
        on_disk(environment, &codebase.git_common_dir)
    }

    fn entry_points_to(&self, entry: &Path, path: &Path) -> bool {
        disk::entry_points_to(entry, path)
    }

    fn find_unlinked_entry(&self, codebase: &Codebase, environment: &Environment) -> io::Result<Option<PathBuf>> {
        disk::find_unlinked_entry(codebase, environment)
    }

    async fn checked_out(&self, codebase: &Codebase, path: &Path) -> Result<Option<CheckedOut>, GitError> {
        self.open_repository(codebase).checked_out(path).await
    }

    async fn diff_since(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        entry: &Path,
        began: &str,
        options: DiffOptions,
    ) -> Result<WorktreeDiff, GitError> {
        diff::diff_since(&self.open_repository(codebase), &environment.path, entry, began, options).await
    }

    async fn count_uncommitted(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        entry: &Path,
    ) -> Result<usize, GitError> {
        count_uncommitted(&self.git, pinned_location(codebase, environment, entry)).await
    }

    async fn is_untouched(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        entry: &Path,
        at: &CommitSha,
    ) -> Result<bool, GitError> {
        let repo = self.open_repository(codebase);
        worktree::is_untouched(&repo, &environment.path, entry, &environment.branch, at).await
    }

    async fn merge_commit(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        entry: &Path,
        from: &str,
        at: &CommitSha,
    ) -> Result<bool, SyncError> {
        sync::merge_commit(&self.open_repository(codebase), &environment.path, entry, from, at).await
    }

    fn open_lock(&self, codebase: &Codebase, environment: &Environment) -> io::Result<EnvironmentLock> {
        EnvironmentLock::open(&codebase.git_common_dir, environment.id)
    }

    fn run_locks(&self, codebase: &Codebase, environment: &Environment) -> io::Result<LockFiles> {
        LockFiles::of_environment(&codebase.git_common_dir, environment.id)
    }

    fn locked_environments(&self, codebase: &Codebase) -> io::Result<BTreeSet<EnvironmentId>> {
        LockFiles::locked_environments(&codebase.git_common_dir)
    }

    fn delete_locks(&self, codebase: &Codebase, id: EnvironmentId) -> io::Result<()> {
        LockFiles::of_environment(&codebase.git_common_dir, id)?.delete_files()
    }

    async fn quarantine_broken(&self, codebase: &Codebase) -> Result<Vec<QuarantinedEntry>, EnvironmentError> {
        let common_dir = &codebase.git_common_dir;
        let failed =
            |source| EnvironmentError::Io { what: format!("{} cannot be looked at", common_dir.display()), source };
        let mut quarantined = Vec::new();
        for broken in quarantine::broken_entries(common_dir).map_err(failed)? {
            let aside = quarantine::quarantine_entry(common_dir, &broken).map_err(failed)?;
            quarantine::pin_quarantined(&self.open_repository(codebase), &aside).await?;
            quarantined.push(QuarantinedEntry { worktree: broken.worktree, why: broken.why, aside });
        }
        Ok(quarantined)
    }

    fn sweep_leftovers(&self, codebase: &Codebase, ended: &[Nonce]) -> io::Result<Vec<String>> {
        let mut swept = leftovers::sweep_staging(&codebase.git_common_dir, ended)?;
        let calls = leftovers::sweep_leftovers(&codebase.git_common_dir)?;
        swept.extend(calls.iter().map(|path| path.display().to_string()));
        Ok(swept)
    }

    async fn create_snapshot(
        &self,
        codebase: &Codebase,
        path: &Path,
        mark: SnapshotMark,
    ) -> Result<SnapshotWorktree, AddWorktreeError> {
        reading::create_snapshot(&self.open_repository(codebase), path, mark).await
    }

    async fn end_snapshot(
        &self,
        codebase: &Codebase,
        snapshot: SnapshotWorktree,
        regenerable: &RegenerableNames,
    ) -> Result<SnapshotOutcome, SnapshotError> {
        reading::end_snapshot(&self.open_repository(codebase), snapshot, regenerable).await
    }

    fn list_snapshots(&self, codebase: &Codebase) -> io::Result<Vec<SnapshotWorktree>> {
        reading::list_snapshots(&self.open_repository(codebase))
    }
}

fn to_found_environment(entry: &WorktreeEntry) -> FoundEnvironment {
    let head = match &entry.head {
        WorktreeHead::Bare => None,
        WorktreeHead::Branch { at, .. } => at.clone(),
        WorktreeHead::Detached(at) => Some(at.clone()),
    };
    FoundEnvironment { path: entry.path.clone(), branch: entry.branch_name().map(str::to_owned), head }
}

/// A worktree with its three directories pinned: an agent may have rewritten the files inside.
fn pinned_location<'a>(codebase: &'a Codebase, environment: &'a Environment, entry: &'a Path) -> GitLocation<'a> {
    GitLocation::Worktree { work_tree: &environment.path, git_dir: entry, common_dir: &codebase.git_common_dir }
}
