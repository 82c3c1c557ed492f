//! Isolation by git worktree.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use grove_git::base::{BaseWish, choose_remote, remote_of_base};
use grove_git::parse::{WorktreeEntry, WorktreeHead};
use grove_git::reading::is_reading;
use grove_git::worktree::{self, AddError, BranchIntent, Created, Prepared, Source, Wanted, Withdrawn};
use grove_git::{Git, RemoteOptions, Repository, include, links, quarantine, submodules};
use grove_model::{Codebase, Environment, PrHead, Work};

use crate::error::IsolationError;
use crate::provider::disk::{Facts, Present, facts_of};
use crate::provider::{Found, Health, IsolationProvider, IsolationRequest, Made, Unfinished};
use crate::settings::Submodules;

#[derive(Clone, Debug)]
pub struct WorktreeProvider {
    git: Git,
}

impl WorktreeProvider {
    pub fn new(git: Git) -> Self {
        Self { git }
    }

    fn repository(&self, codebase: &Codebase) -> Repository {
        Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir)
    }
}

/// What a kind of work needs of git.
fn source_of(work: &Work) -> Source {
    let number = work.key().number().unwrap_or_default();
    match work {
        Work::Issue { .. } | Work::Thread { .. } | Work::Task { .. } => Source::OwnBranch,
        Work::PullRequest { head: PrHead::SameRepo { .. }, .. } => Source::PullRequestBranch,
        Work::PullRequest { head, .. } | Work::Review { head, .. } => {
            Source::PullRequestHead { number, pinned: head.commit().cloned() }
        }
    }
}

#[async_trait]
impl IsolationProvider for WorktreeProvider {
    fn name(&self) -> &'static str {
        "worktree"
    }

    async fn create(&self, request: &IsolationRequest<'_>) -> Result<Made, IsolationError> {
        let options = RemoteOptions {
            creation: Some(request.nonce),
            fetch_timeout: Some(request.settings.fetch_timeout()),
            on_wait: request.on_wait.cloned(),
        };
        let repo = self.repository(request.codebase).with_remote_options(options);
        let failed = |error: AddError| IsolationError::Add { branch: request.branch.clone(), error: Box::new(error) };
        let remotes = repo.remotes().await?;
        let remote = choose_remote(request.settings.remote(), &remotes).map_err(|error| failed(error.into()))?;
        let wanted = Wanted {
            branch: request.branch,
            source: source_of(request.work),
            remote: remote.as_deref(),
            base_remote: remote_of_base(request.from, remote.as_deref(), &remotes),
            base: BaseWish {
                explicit: request.from,
                setting: request.settings.base_branch(),
                recorded: request.codebase.default_branch.as_deref(),
            },
            fetch: request.settings.fetch(),
        };
        let prepared = Prepared::find(&repo, &wanted).await.map_err(failed)?;
        let base = prepared.base.clone();
        let mut created =
            worktree::add(&repo, request.path, prepared, request.nonce, request.journal).await.map_err(failed)?;
        let mut notes = std::mem::take(&mut created.warnings);
        match furnish(&repo, &created, request, remote.as_deref()).await {
            Ok(more) => notes.extend(more),
            Err(error) => {
                take_back(&repo, &mut created).await;
                return Err(error);
            }
        }
        let head = created.head.clone();
        let facts = look_at_new(&created);
        Ok(Made { head, base, facts, notes, unfinished: Box::new(Worktree { repo, created }) })
    }

    async fn withdraw(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        intent: Option<&BranchIntent>,
    ) -> Result<Option<PathBuf>, IsolationError> {
        let repo = self.repository(codebase);
        let withdrawn =
            worktree::withdraw(&repo, &environment.path, &environment.branch, intent, environment.nonce).await;
        let failed = |error| IsolationError::Add { branch: environment.branch.clone(), error: Box::new(error) };
        Ok(match withdrawn.map_err(failed)? {
            Withdrawn::Whole => None,
            Withdrawn::Kept(path) => Some(path),
        })
    }

    async fn forget(&self, codebase: &Codebase, environment: &Environment) -> Result<(), IsolationError> {
        let forgotten = quarantine::forget(&codebase.git_common_dir, &environment.path)
            .map_err(|source| IsolationError::Io { what: "git's entry cannot be put aside".to_owned(), source })?;
        if let Some(aside) = forgotten {
            quarantine::pin(&self.repository(codebase), &aside).await?;
        }
        Ok(())
    }

    fn settle(&self, codebase: &Codebase, environment: &Environment) -> Result<bool, IsolationError> {
        let settled = worktree::settle(&self.repository(codebase), environment.nonce);
        settled.map_err(|source| IsolationError::Io { what: "the worktree cannot be unlocked".to_owned(), source })
    }

    async fn get(&self, codebase: &Codebase, path: &Path) -> Result<Option<Found>, IsolationError> {
        Ok(self.list(codebase).await?.into_iter().find(|found| found.path == path))
    }

    async fn list(&self, codebase: &Codebase) -> Result<Vec<Found>, IsolationError> {
        let entries = self.repository(codebase).worktrees().await?;
        // The first is the canonical checkout. What is only looked at is nobody's to use.
        let reading = |entry: &&WorktreeEntry| entry.locked.as_deref().is_some_and(is_reading);
        Ok(entries.iter().skip(1).filter(|entry| !reading(entry)).map(found).collect())
    }

    async fn adopt(&self, codebase: &Codebase, path: &Path) -> Result<Option<Found>, IsolationError> {
        let Some(found) = self.get(codebase, path).await? else { return Ok(None) };
        // What git lists may be gone, or another repository may stand there now.
        let there = links::entry_of(path, &codebase.git_common_dir)
            .map_err(|source| IsolationError::Io { what: format!("{} cannot be looked at", path.display()), source })?;
        Ok(there.map(|_| found))
    }

    async fn health_check(&self, codebase: &Codebase, environment: &Environment) -> Result<Health, IsolationError> {
        Ok(match facts_of(&self.git, codebase, std::slice::from_ref(environment)).await.remove(0) {
            Ok(Facts::Present(_)) => Health::Good,
            Ok(Facts::Missing) => Health::Missing,
            Ok(Facts::NotMounted) => Health::NotMounted,
            Err(why) => Health::Bad(why),
        })
    }
}

fn found(entry: &WorktreeEntry) -> Found {
    let head = match &entry.head {
        WorktreeHead::Bare => None,
        WorktreeHead::Branch { at, .. } => at.clone(),
        WorktreeHead::Detached(at) => Some(at.clone()),
    };
    Found { path: entry.path.clone(), branch: entry.branch().map(str::to_owned), head }
}

/// What comes into a new worktree besides the commit: submodules and ignored files.
async fn furnish(
    repo: &Repository,
    created: &Created,
    request: &IsolationRequest<'_>,
    remote: Option<&str>,
) -> Result<Vec<String>, IsolationError> {
    let mut notes = Vec::new();
    let wanted = request.settings.submodules();
    if wanted != Submodules::Leave {
        // A fork's author could name any address and any folder.
        if matches!(source_of(request.work), Source::PullRequestHead { .. }) {
            let there = created.path.join(".gitmodules").symlink_metadata().is_ok();
            notes.extend(there.then(|| "Submodules of a pull request from a fork are not checked out.".to_owned()));
        } else {
            let initialised = submodules::initialise(repo, &created.path, remote).await;
            let problems = initialised.map_err(|error| IsolationError::Submodules(error.line()))?;
            if wanted == Submodules::Require && !problems.is_empty() {
                return Err(IsolationError::Submodules(problems.join(" ")));
            }
            notes.extend(problems);
        }
    }
    let included = include::copy_ignored(repo, &created.path, request.settings.copy()).await?;
    notes.extend(included.refused);
    Ok(notes)
}

/// What verification found.
fn look_at_new(created: &Created) -> Facts {
    let Some(status) = created.status.clone() else { return Facts::Missing };
    Facts::Present(Box::new(Present { admin_dir: created.admin_dir.clone(), status }))
}

struct Worktree {
    repo: Repository,
    created: Created,
}

#[async_trait]
impl Unfinished for Worktree {
    fn finish(&self) -> Result<(), IsolationError> {
        let failed = |error| IsolationError::Add { branch: self.created.branch.clone(), error: Box::new(error) };
        self.created.unlock().map_err(failed)
    }

    async fn take_back(mut self: Box<Self>) -> Vec<String> {
        self.created.undo(&self.repo).await
    }
}

async fn take_back(repo: &Repository, created: &mut Created) {
    for left in created.undo(repo).await {
        tracing::warn!(path = %created.path.display(), "taking a worktree back: {left}");
    }
}
