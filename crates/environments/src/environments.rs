//! `Environments`, the handle that every operation on environments is a method of.

use std::sync::Arc;

use grove_git::base::choose_remote;
use grove_git::{Git, ProgressCallback, Repository};
use grove_model::{Codebase, Environment};
use grove_store::Store;

use crate::error::EnvironmentError;
use crate::forge::Forge;
use crate::lease::node_name;
use crate::provider::IsolationProvider;
use crate::provider::worktree::WorktreeProvider;
use crate::scripts::ScriptRunner;
use crate::settings::{LiveSettings, REPOSITORY_SETTINGS_FILE, ReloadOutcome, Settings};

#[derive(Clone)]
pub struct Environments {
    pub(crate) git: Git,
    pub(crate) store: Store,
    pub(crate) settings: LiveSettings,
    pub(crate) provider: Arc<dyn IsolationProvider>,
    /// The service that hosts the repositories, where one is connected.
    pub(crate) forge: Option<Arc<dyn Forge>>,
    /// The name of this machine in records.
    pub(crate) node: String,
    /// Runs init scripts; without it, they fail.
    pub(crate) scripts: Option<Arc<dyn ScriptRunner>>,
    /// Gets the output of init scripts as it comes.
    pub(crate) show_script_output: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Environments {
    pub fn new(git: Git, store: Store, settings: impl Into<LiveSettings>) -> Self {
        let settings = settings.into();
        let provider = Arc::new(WorktreeProvider::new(git.clone()));
        Self {
            git,
            store,
            settings,
            provider,
            forge: None,
            node: node_name(),
            scripts: None,
            show_script_output: Arc::new(|_| {}),
        }
    }

    /// Adds the forge to ask about pull requests.
    pub fn connected_to(self, forge: Arc<dyn Forge>) -> Self {
        Self { forge: Some(forge), ..self }
    }

    /// Sends the output of init scripts to a callback.
    pub fn showing_script_output(self, show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { show_script_output: Arc::new(show), ..self }
    }

    /// Reports slow remotes and the progress of fetches and checkouts to a callback.
    pub fn reporting_progress(self, callback: ProgressCallback) -> Self {
        let git = self.git.with_progress(callback);
        Self { provider: Arc::new(WorktreeProvider::new(git.clone())), git, ..self }
    }

    pub fn last_settings_reload(&self) -> ReloadOutcome {
        self.settings.last_reload()
    }

    pub fn open_repository(&self, codebase: &Codebase) -> Repository {
        Repository::from_record(&self.git, &codebase.default_cwd, &codebase.git_common_dir)
    }

    pub(crate) async fn reload_environment(&self, environment: &Environment) -> Result<Environment, EnvironmentError> {
        let found = self.store.find_environment(environment.id).await?;
        found.ok_or_else(|| EnvironmentError::NoSuch(environment.branch.to_string()))
    }
}

/// Returns the settings with those of the repository's own file, as its local base branch has it.
pub async fn with_repository_settings(
    repo: &Repository,
    settings: &Settings,
    default_branch: Option<&str>,
) -> Result<Settings, EnvironmentError> {
    let Some(base) = settings.base_branch().or(default_branch) else { return Ok(settings.clone()) };
    let remotes = repo.list_remotes().await?;
    let remote = choose_remote(settings.remote_name(), &remotes).unwrap_or_default();
    let base = remote.as_deref().and_then(|remote| base.strip_prefix(&format!("{remote}/"))).unwrap_or(base);
    let tracked = remote.map(|remote| format!("refs/remotes/{remote}/{base}"));
    let refs: Vec<String> = tracked.into_iter().chain([format!("refs/heads/{base}")]).collect();
    match repo.file_of_first(&refs, REPOSITORY_SETTINGS_FILE).await? {
        Some((_, bytes)) => Ok(settings.with_repository_file(&String::from_utf8_lossy(&bytes), base)?),
        None => Ok(settings.clone()),
    }
}
