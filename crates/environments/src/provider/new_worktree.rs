//! Creates a worktree with its submodules and ignored files.

use async_trait::async_trait;
use grove_git::base::{BasePreference, choose_remote, remote_of_base};
use grove_git::worktree::{self, AddWorktreeError, CreatedWorktree, PreparedWorktree, WorktreeRequest, WorktreeSource};
use grove_git::{RemoteOptions, Repository, include, submodules};
use grove_model::{PullRequestHead, Work};

use crate::error::{CreateError, EnvironmentError};
use crate::provider::disk::{DiskFacts, PresentWorktree};
use crate::provider::{ProvisionRequest, ProvisionedEnvironment, UnfinishedCreation};
use crate::settings::SubmodulePolicy;

/// Creates the complete worktree, or leaves nothing.
pub(super) async fn create_worktree(
    repo: Repository,
    request: &ProvisionRequest<'_>,
) -> Result<ProvisionedEnvironment, EnvironmentError> {
    let options =
        RemoteOptions { creation: Some(request.nonce), fetch_timeout: Some(request.settings.fetch_timeout()) };
    let repo = repo.with_remote_options(options);
    let failed = |error: AddWorktreeError| {
        EnvironmentError::Create(CreateError::Add { branch: request.branch.clone(), error: Box::new(error) })
    };
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
    let mut created =
        worktree::add_worktree(&repo, request.path, prepared, request.nonce, request.journal).await.map_err(failed)?;
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
    Ok(ProvisionedEnvironment { head, base, facts, notes, unfinished: Box::new(UnfinishedWorktree { repo, created }) })
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
            let problems =
                initialised.map_err(|error| EnvironmentError::Create(CreateError::Submodules(error.reason_line())))?;
            if wanted == SubmodulePolicy::Require && !problems.is_empty() {
                return Err(EnvironmentError::Create(CreateError::Submodules(problems.join(" "))));
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
    DiskFacts::Present(Box::new(PresentWorktree { admin_dir: created.admin_dir.clone(), status, operation: None }))
}

struct UnfinishedWorktree {
    repo: Repository,
    created: CreatedWorktree,
}

#[async_trait]
impl UnfinishedCreation for UnfinishedWorktree {
    fn mark_finished(&self) -> Result<(), EnvironmentError> {
        let failed = |error| {
            EnvironmentError::Create(CreateError::Add { branch: self.created.branch.clone(), error: Box::new(error) })
        };
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
