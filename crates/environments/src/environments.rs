//! The handle that all operations on environments hang on.

use std::sync::Arc;

use grove_git::base::choose_remote;
use grove_git::{Git, OnWait, Repository};
use grove_model::{Codebase, Environment};
use grove_store::Store;

use crate::error::IsolationError;
use crate::forge::Forge;
use crate::lease::node;
use crate::provider::IsolationProvider;
use crate::provider::worktree::WorktreeProvider;
use crate::settings::{REPOSITORY_FILE, Settings};

#[derive(Clone)]
pub struct Isolation {
    pub(crate) git: Git,
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    pub(crate) provider: Arc<dyn IsolationProvider>,
    /// Whoever hosts the repositories, where one is connected.
    pub(crate) forge: Option<Arc<dyn Forge>>,
    /// This machine, as records name it.
    pub(crate) node: String,
    /// Is told of a remote that lets a creation wait.
    pub(crate) on_wait: Option<OnWait>,
}

impl Isolation {
    pub fn new(git: Git, store: Store, settings: Settings) -> Self {
        let provider = Arc::new(WorktreeProvider::new(git.clone()));
        Self { git, store, settings, provider, forge: None, node: node(), on_wait: None }
    }

    /// The same, with somebody to ask about pull requests.
    pub fn connected_to(self, forge: Arc<dyn Forge>) -> Self {
        Self { forge: Some(forge), ..self }
    }

    /// The same, for a caller that wants to know of a remote that lets its creation wait.
    pub fn telling_of_waits(self, on_wait: OnWait) -> Self {
        Self { on_wait: Some(on_wait), ..self }
    }

    pub fn repository(&self, codebase: &Codebase) -> Repository {
        Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir)
    }

    pub(crate) async fn reread(&self, environment: &Environment) -> Result<Environment, IsolationError> {
        let found = self.store.environment(environment.id).await?;
        found.ok_or_else(|| IsolationError::NoSuch(environment.branch.to_string()))
    }
}

/// The settings with the repository's own, as its base branch has them here.
pub async fn with_repository_settings(
    repo: &Repository,
    settings: &Settings,
    default_branch: Option<&str>,
) -> Result<Settings, IsolationError> {
    let Some(base) = settings.base_branch().or(default_branch) else { return Ok(settings.clone()) };
    let remotes = repo.remotes().await?;
    let remote = choose_remote(settings.remote(), &remotes).unwrap_or_default();
    let base = remote.as_deref().and_then(|remote| base.strip_prefix(&format!("{remote}/"))).unwrap_or(base);
    let tracked = remote.map(|remote| format!("refs/remotes/{remote}/{base}"));
    let refs: Vec<String> = tracked.into_iter().chain([format!("refs/heads/{base}")]).collect();
    match repo.file_of_first(&refs, REPOSITORY_FILE).await? {
        Some((_, bytes)) => Ok(settings.with_repository_file(&String::from_utf8_lossy(&bytes), base)?),
        None => Ok(settings.clone()),
    }
}
