//! The provider that isolates by git worktree.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use grove_git::base::{BasePreference, choose_remote, remote_of_base};
use grove_git::checked_out::CheckedOut;
use grove_git::parse::{WorktreeEntry, WorktreeHead};
use grove_git::push::count_uncommitted;
use grove_git::reading::is_reading;
use grove_git::removal::look::{RemovalSubject, check_removal};
use grove_git::removal::{TrashManifest, TrashedWorktree};
use grove_git::worktree::{
    self, AddWorktreeError, BranchIntent, CreatedWorktree, PreparedWorktree, WithdrawOutcome, WorktreeRequest,
    WorktreeSource,
};
use grove_git::{
    Git, GitError, GitLocation, RemoteOptions, RemovalCheck, Repository, include, links, quarantine, submodules,
};
use grove_model::{Codebase, Environment, PullRequestHead, Work};

use crate::error::EnvironmentError;
use crate::provider::disk::{self, DiskFacts, PathState, PresentWorktree, facts_of, on_disk};
use crate::provider::trash::{TrashedEnvironment, WorktreeInTrash};
use crate::provider::{
    EnvironmentHealth, FoundEnvironment, IsolationProvider, ProvisionRequest, ProvisionedEnvironment,
    UnfinishedCreation,
};
use crate::settings::SubmodulePolicy;

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

/// Returns the source in git that a kind of work needs.
fn source_of(work: &Work) -> WorktreeSource {
    let number = work.work_key().forge_number().unwrap_or_default();
    match work {
        Work::Issue { .. } | Work::Thread { .. } | Work::Task { .. } => WorktreeSource::OwnBranch,
        Work::PullRequest { head: PullRequestHead::SameRepo { .. }, .. } => WorktreeSource::PullRequestBranch,
        Work::PullRequest { head, .. } | Work::Review { head, .. } => {
            WorktreeSource::PullRequestHead { number, pinned: head.head_commit().cloned() }
        }
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
        let options = RemoteOptions {
            creation: Some(request.nonce),
            fetch_timeout: Some(request.settings.fetch_timeout()),
            on_wait: request.on_wait.cloned(),
        };
        let repo = self.open_repository(request.codebase).with_remote_options(options);
        let failed =
            |error: AddWorktreeError| EnvironmentError::Add { branch: request.branch.clone(), error: Box::new(error) };
        let remotes = repo.list_remotes().await?;
        let remote = choose_remote(request.settings.remote_name(), &remotes).map_err(|error| failed(error.into()))?;
        let wanted = WorktreeRequest {
            branch: request.branch,
            source: source_of(request.work),
            remote: remote.as_deref(),
            base_remote: remote_of_base(request.from, remote.as_deref(), &remotes),
            base: BasePreference {
                explicit: request.from,
                setting: request.settings.base_branch(),
                recorded: request.codebase.default_branch.as_deref(),
            },
            fetch: request.settings.fetch_policy(),
        };
        let prepared = PreparedWorktree::find_source(&repo, &wanted).await.map_err(failed)?;
        let base = prepared.base.clone();
        let mut created = worktree::add_worktree(&repo, request.path, prepared, request.nonce, request.journal)
            .await
            .map_err(failed)?;
        let mut notes = std::mem::take(&mut created.warnings);
        match populate_worktree(&repo, &created, request, remote.as_deref()).await {
            Ok(more) => notes.extend(more),
            Err(error) => {
                take_back(&repo, &mut created).await;
                return Err(error);
            }
        }
        let head = created.head.clone();
        let facts = look_at_new(&created);
        Ok(ProvisionedEnvironment {
            head,
            base,
            facts,
            notes,
            unfinished: Box::new(UnfinishedWorktree { repo, created }),
        })
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
        let failed = |error| EnvironmentError::Add { branch: environment.branch.clone(), error: Box::new(error) };
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
    ) -> Result<Vec<u8>, GitError> {
        let diff = self.git.new_command(pinned_location(codebase, environment, entry), "diff");
        let diff =
            diff.args(["--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", began, "--"]);
        Ok(diff.inspecting_worktree().run().await?.stdout)
    }

    async fn count_uncommitted(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        entry: &Path,
    ) -> Result<usize, GitError> {
        count_uncommitted(&self.git, pinned_location(codebase, environment, entry)).await
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

/// Fills a new worktree with what the commit does not contain: submodules and ignored files.
async fn populate_worktree(
    repo: &Repository,
    created: &CreatedWorktree,
    request: &ProvisionRequest<'_>,
    remote: Option<&str>,
) -> Result<Vec<String>, EnvironmentError> {
    let mut notes = Vec::new();
    let wanted = request.settings.submodule_policy();
    if wanted != SubmodulePolicy::Leave {
        // The author of a fork could name any address and any folder.
        if matches!(source_of(request.work), WorktreeSource::PullRequestHead { .. }) {
            let there = created.path.join(".gitmodules").symlink_metadata().is_ok();
            notes.extend(there.then(|| "Submodules of a pull request from a fork are not checked out.".to_owned()));
        } else {
            let initialised = submodules::initialise_submodules(repo, &created.path, remote).await;
            let problems = initialised.map_err(|error| EnvironmentError::Submodules(error.reason_line()))?;
            if wanted == SubmodulePolicy::Require && !problems.is_empty() {
                return Err(EnvironmentError::Submodules(problems.join(" ")));
            }
            notes.extend(problems);
        }
    }
    let included = include::copy_ignored(repo, &created.path, request.settings.copy_patterns()).await?;
    notes.extend(included.refused);
    Ok(notes)
}

/// Returns the facts that the verification found.
fn look_at_new(created: &CreatedWorktree) -> DiskFacts {
    let Some(status) = created.status.clone() else { return DiskFacts::Missing };
    DiskFacts::Present(Box::new(PresentWorktree { admin_dir: created.admin_dir.clone(), status }))
}

struct UnfinishedWorktree {
    repo: Repository,
    created: CreatedWorktree,
}

#[async_trait]
impl UnfinishedCreation for UnfinishedWorktree {
    fn mark_finished(&self) -> Result<(), EnvironmentError> {
        let failed = |error| EnvironmentError::Add { branch: self.created.branch.clone(), error: Box::new(error) };
        self.created.unlock_worktree().map_err(failed)
    }

    async fn take_back(mut self: Box<Self>) -> Vec<String> {
        self.created.undo_creation(&self.repo).await
    }
}

async fn take_back(repo: &Repository, created: &mut CreatedWorktree) {
    for left in created.undo_creation(repo).await {
        tracing::warn!(path = %created.path.display(), "taking a worktree back: {left}");
    }
}

/// A worktree with its three directories pinned: an agent may have rewritten the files inside.
fn pinned_location<'a>(codebase: &'a Codebase, environment: &'a Environment, entry: &'a Path) -> GitLocation<'a> {
    GitLocation::Worktree { work_tree: &environment.path, git_dir: entry, common_dir: &codebase.git_common_dir }
}
