//! The context that every command works with.

use std::path::PathBuf;
use std::sync::Arc;

use grove_agents::scripts::SupervisedScripts;
use grove_environments::codebases::Codebases;
use grove_environments::environments::Environments;
use grove_environments::problem::Problem;
use grove_environments::redact::Redactor;
use grove_environments::settings::{ProcessEnvironment, Settings};
use grove_git::Git;
use grove_model::Codebase;
use grove_platforms::github::connection::GithubConnection;
use grove_store::private::{self, Exposure, ExposureKind, find_exposure};
use grove_store::{Store, StoreError, StoreOptions, sqlite_files};

use crate::server::{known_token, token_file};
use crate::words;

pub struct CliContext {
    pub json: bool,
    pub cwd: PathBuf,
    pub git: Git,
    pub settings: Settings,
    /// Files that other users could access until this command restricted them.
    pub exposed: Vec<Exposure>,
}

impl CliContext {
    pub fn new(json: bool) -> Result<Self, Problem> {
        let environment = ProcessEnvironment::of_this_process().map_err(|error| words::no_current_directory(&error))?;
        let settings = Settings::load_settings(&environment)?;
        crate::log::set_log_redactor(redactor_of(&settings));
        let exposed = close_to_others(&settings);
        let mut git = Git::default().with_inspect_timeout(settings.inspect_timeout());
        if let Some(github) = GithubConnection::new(settings.github_settings()) {
            git = git.with_keyring(github);
        }
        Ok(Self { json, cwd: environment.cwd, git, settings, exposed })
    }

    /// Opens the store, which is created on first use.
    pub async fn open_store(&self) -> Result<Store, Problem> {
        let home = self.settings.home_path();
        if self.settings.is_home_instead_of_container_home() && !home.exists() {
            let text =
                format!("/.grove cannot be used in this container, so everything is kept in {}.", home.display());
            crate::output::print_warning(&text);
        }
        private::create_folder(home).map_err(|source| StoreError::NoFolder { path: home.to_owned(), source })?;
        let connect_timeout = self.settings.store_connect_timeout();
        let options = StoreOptions { connect_timeout, ..StoreOptions::default() };
        Ok(Store::open(&self.settings.store_url(), options).await?)
    }

    /// Returns a redactor for every secret that this process knows.
    pub fn secret_redactor(&self) -> Redactor {
        redactor_of(&self.settings)
    }

    pub fn codebases_in(&self, store: &Store) -> Codebases {
        Codebases { git: self.git.clone(), store: store.clone(), settings: (&self.settings).into() }
    }

    pub fn environments_in(&self, store: &Store) -> Environments {
        let environments = Environments::new(self.git.clone(), store.clone(), &self.settings);
        let environments = environments.running_scripts_with(Arc::new(SupervisedScripts));
        match self.json {
            true => environments,
            false => environments.showing_script_output(crate::output::print_script_output),
        }
    }

    /// Returns the requested codebase, and its environment called `name`.
    pub async fn resolve_environment(
        &self,
        store: &Store,
        codebase: Option<&str>,
        name: &str,
    ) -> Result<(Codebase, grove_model::Environment), Problem> {
        let codebase = self.codebases_in(store).resolve_codebase(codebase, &self.cwd).await?;
        let environment = self.environments_in(store).find_environment(&codebase, name).await?;
        Ok((codebase, environment))
    }

    /// Returns the codebase and the environment that the current directory is in.
    pub async fn environment_here(
        &self,
        store: &Store,
        codebase: Option<&str>,
    ) -> Result<(Codebase, grove_model::Environment), Problem> {
        let codebase = self.codebases_in(store).resolve_codebase(codebase, &self.cwd).await?;
        let environments = self.environments_in(store).current_environments(&codebase, false).await?;
        let here = environments.into_iter().filter(|environment| self.cwd.starts_with(&environment.path));
        // One worktree may be inside another.
        let innermost = here.max_by_key(|environment| environment.path.components().count());
        Ok((codebase, innermost.ok_or_else(words::no_worktree_here)?))
    }

    /// Handles signals: the first Ctrl-C ends the running git process, so that the command fails and cleans
    /// up after itself; the second one ends the program.
    pub fn interrupt_git_on_signals(&self) {
        use tokio::signal::unix::{SignalKind, signal};
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            let Ok(mut signals) = signal(kind) else { continue };
            let git = self.git.clone();
            tokio::spawn(async move {
                signals.recv().await;
                git.interrupt_calls();
                signals.recv().await;
                std::process::exit(130);
            });
        }
    }
}

fn redactor_of(settings: &Settings) -> Redactor {
    let secrets = settings.configured_secrets().into_iter().chain(known_token(settings));
    Redactor::new(secrets.collect()).with_values(settings.agent_values())
}

/// Takes the rights of other users from GROVE_HOME, which protects everything below it, from the token and
/// from the store's files, which may be elsewhere. Returns the exposures that it found.
fn close_to_others(settings: &Settings) -> Vec<Exposure> {
    let user = rustix::process::geteuid().as_raw();
    let files = sqlite_files(&settings.store_url());
    let all = [settings.home_path().to_owned(), token_file(settings)].into_iter().chain(files);
    let exposed: Vec<Exposure> = all.filter_map(|path| find_exposure(&path, user)).collect();
    for Exposure { path, .. } in exposed.iter().filter(|found| matches!(found.kind, ExposureKind::Mode(_))) {
        if let Err(error) = private::restrict_permissions(path) {
            tracing::warn!(path = %path.display(), %error, "permissions not restricted");
        }
    }
    exposed
}
