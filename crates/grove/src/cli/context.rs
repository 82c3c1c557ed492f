//! What every command works with.

use std::path::PathBuf;

use grove_environments::codebases::Codebases;
use grove_environments::environments::Isolation;
use grove_environments::problem::Problem;
use grove_environments::redact::Redactor;
use grove_environments::settings::{Environment, Settings};
use grove_git::Git;
use grove_model::Codebase;
use grove_platforms::github::connection::Connection;
use grove_store::private::{self, Exposure, ExposureKind, find_exposure};
use grove_store::{Options, Store, StoreError, sqlite_files};

use crate::server::{known_token, token_file};

pub struct Context {
    pub json: bool,
    pub cwd: PathBuf,
    pub git: Git,
    pub settings: Settings,
    /// What others could get at before this command closed it.
    pub exposed: Vec<Exposure>,
}

impl Context {
    pub fn new(json: bool) -> Result<Self, Problem> {
        let environment = Environment::of_this_process().map_err(|error| {
            Problem::new(
                "not_found",
                format!("The current directory cannot be read: {error}."),
                "Go into a directory that exists.",
            )
        })?;
        let settings = Settings::load(&environment)?;
        crate::log::hide(redactor_of(&settings));
        let exposed = close_to_others(&settings);
        let git = match Connection::new(settings.github()) {
            Some(github) => Git::default().with_keyring(github),
            None => Git::default(),
        };
        Ok(Self { json, cwd: environment.cwd, git, settings, exposed })
    }

    /// The store, made on first use.
    pub async fn store(&self) -> Result<Store, Problem> {
        let home = self.settings.home();
        private::create_folder(home).map_err(|source| StoreError::NoFolder { path: home.to_owned(), source })?;
        Ok(Store::open(&self.settings.store_url(), Options::default()).await?)
    }

    /// Knows every secret that this process knows.
    pub fn redactor(&self) -> Redactor {
        redactor_of(&self.settings)
    }

    pub fn codebases(&self, store: &Store) -> Codebases {
        Codebases { git: self.git.clone(), store: store.clone(), settings: self.settings.clone() }
    }

    pub fn isolation(&self, store: &Store) -> Isolation {
        Isolation::new(self.git.clone(), store.clone(), self.settings.clone())
    }

    /// The codebase that is meant, and its environment called `name`.
    pub async fn environment(
        &self,
        store: &Store,
        codebase: Option<&str>,
        name: &str,
    ) -> Result<(Codebase, grove_model::Environment), Problem> {
        let codebase = self.codebases(store).meant(codebase, &self.cwd).await?;
        let environment = self.isolation(store).find_environment(&codebase, name).await?;
        Ok((codebase, environment))
    }

    /// The first Ctrl-C ends the git that runs, so that the command fails and cleans up behind
    /// itself; the second ends the program.
    pub fn interrupt_git_on_signals(&self) {
        use tokio::signal::unix::{SignalKind, signal};
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            let Ok(mut signals) = signal(kind) else { continue };
            let git = self.git.clone();
            tokio::spawn(async move {
                signals.recv().await;
                git.interrupt();
                signals.recv().await;
                std::process::exit(130);
            });
        }
    }
}

fn redactor_of(settings: &Settings) -> Redactor {
    let secrets = settings.secrets().into_iter().chain(known_token(settings));
    Redactor::new(secrets.collect()).with_values(settings.agent_values())
}

/// Takes the rights of others from GROVE_HOME, which protects all that is below it, from the token and from the
/// store's files, which may be elsewhere; what they had until now.
fn close_to_others(settings: &Settings) -> Vec<Exposure> {
    let user = rustix::process::geteuid().as_raw();
    let files = sqlite_files(&settings.store_url());
    let all = [settings.home().to_owned(), token_file(settings)].into_iter().chain(files);
    let exposed: Vec<Exposure> = all.filter_map(|path| find_exposure(&path, user)).collect();
    for Exposure { path, .. } in exposed.iter().filter(|found| matches!(found.kind, ExposureKind::Mode(_))) {
        if let Err(error) = private::restrict(path) {
            tracing::warn!("others may be able to read {}: {error}", path.display());
        }
    }
    exposed
}
