//! From a wish to an environment.

use std::path::Path;
use std::sync::Arc;

use grove_git::{Git, Repository};
use grove_model::{BranchName, Codebase, Environment, EnvironmentId, Nonce, Status, Work, human_size};
use grove_store::{Claim, NewEnvironment, Store};

use super::{IsolationError, IsolationProvider, IsolationRequest, Made, WorktreeProvider, mirror, places};
use crate::settings::{REPOSITORY_FILE, Settings};
use crate::view::Facts;

/// What somebody asks for.
#[derive(Clone, Debug)]
pub struct Wish {
    pub work: Work,
    /// A branch that a person named, used as given.
    pub branch: Option<BranchName>,
    pub from: Option<String>,
    pub by: CreatedBy,
}

#[derive(Clone, Debug, Default)]
pub struct CreatedBy {
    pub platform: Option<String>,
    pub user: Option<String>,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub environment: Environment,
    /// `None`: it was there already.
    pub new: Option<New>,
}

/// What is known of an environment that was just made.
#[derive(Debug)]
pub struct New {
    pub facts: Facts,
    /// What a person should know, each one sentence.
    pub notes: Vec<String>,
}

#[derive(Clone)]
pub struct Isolation {
    git: Git,
    store: Store,
    settings: Settings,
    provider: Arc<dyn IsolationProvider>,
    /// This machine, as records name it.
    node: String,
}

impl Isolation {
    pub fn new(git: Git, store: Store, settings: Settings) -> Self {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let provider = Arc::new(WorktreeProvider::new(git.clone()));
        Self { git, store, settings, provider, node }
    }

    /// The environment of a work: the one that it has, or a new one.
    pub async fn create(&self, codebase: &Codebase, wish: &Wish) -> Result<Outcome, IsolationError> {
        if let Some(environment) = self.existing(codebase, &wish.work).await? {
            return match (environment.status, &wish.from) {
                (Status::Creating, _) => Err(IsolationError::InTheMaking { work: wish.work.key().to_string() }),
                (_, Some(_)) => Err(IsolationError::HasEnvironment {
                    work: wish.work.key().to_string(),
                    branch: environment.branch,
                }),
                (_, None) => Ok(Outcome { environment, new: None }),
            };
        }
        let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
        let settings = with_repository_settings(&repo, &self.settings, codebase.default_branch.as_deref()).await?;
        let branch = self.branch_for(codebase, wish, &settings).await?;
        let others = self.store.environments(codebase.id, false).await?;
        let path = places::path_for(&branch, codebase, &settings, &others);
        check_place(&path, &settings)?;

        let new = NewEnvironment {
            id: EnvironmentId::new(),
            codebase_id: codebase.id,
            work: wish.work.key().clone(),
            provider: self.provider.name(),
            path,
            branch,
            created_by_platform: wish.by.platform.clone(),
            created_by_user: wish.by.user.clone(),
            node: self.node.clone(),
            nonce: Nonce::new(),
        };
        match self.store.claim(&new).await? {
            Claim::Won(_) => self.make(codebase, wish, &settings, &new).await,
            Claim::Held(holder) if holder.work == new.work && holder.status != Status::Creating => {
                Ok(Outcome { environment: holder, new: None })
            }
            Claim::Held(holder) if holder.work == new.work => {
                Err(IsolationError::InTheMaking { work: new.work.to_string() })
            }
            Claim::Held(holder) => {
                Err(IsolationError::Held { work: holder.work.to_string(), branch: holder.branch, path: holder.path })
            }
        }
    }

    /// The live environment of a work, if its directory is there. One that is gone is marked so.
    async fn existing(&self, codebase: &Codebase, work: &Work) -> Result<Option<Environment>, IsolationError> {
        let Some(environment) = self.store.environment_of(codebase.id, work.key()).await? else { return Ok(None) };
        let gone = environment.status == Status::Active && !environment.path.exists();
        if !gone || environment.node != self.node {
            return Ok(Some(environment));
        }
        if !environment.path.parent().is_some_and(Path::exists) {
            return Err(IsolationError::NotMounted(environment.path));
        }
        self.store.advance(environment.id, environment.status, Status::Destroyed, Some("its folder is gone")).await?;
        Ok(None)
    }

    async fn branch_for(
        &self,
        codebase: &Codebase,
        wish: &Wish,
        settings: &Settings,
    ) -> Result<BranchName, IsolationError> {
        if let Some(named) = &wish.branch {
            return Ok(named.clone());
        }
        let others = self.store.branches_of_others(codebase.id, wish.work.key()).await?;
        Ok(wish.work.branch(settings.branch_prefix(), |name| others.iter().any(|other| other == name.as_str()))?)
    }

    /// Makes what was claimed. Whatever fails, the first error is told and nothing is left.
    async fn make(
        &self,
        codebase: &Codebase,
        wish: &Wish,
        settings: &Settings,
        new: &NewEnvironment,
    ) -> Result<Outcome, IsolationError> {
        let request = IsolationRequest {
            codebase,
            work: &wish.work,
            branch: &new.branch,
            path: &new.path,
            from: wish.from.as_deref(),
            nonce: new.nonce,
            settings,
        };
        let made = match self.provider.create(&request).await {
            Ok(made) => made,
            Err(error) => {
                self.abandon(new, &error).await;
                return Err(error);
            }
        };
        let Made { head, base, facts, mut notes, take_back } = made;
        let base = base.as_ref().map(|base| (base.name.as_str(), &base.sha));
        let environment = match self.store.activate(new.id, new.nonce, base, &head).await {
            Ok(environment) => environment,
            Err(error) => {
                for left in take_back.take_back().await {
                    tracing::warn!(path = %new.path.display(), "taking an environment back: {left}");
                }
                let error = error.into();
                self.abandon(new, &error).await;
                return Err(error);
            }
        };
        if let Err(error) = mirror::write(codebase, &environment) {
            notes.push(format!("the environment's facts could not be mirrored to {}: {error}", mirror::FOLDER));
        }
        Ok(Outcome { environment, new: Some(New { facts, notes }) })
    }

    async fn abandon(&self, new: &NewEnvironment, error: &IsolationError) {
        let why = crate::words::kept_error(error);
        if let Err(error) = self.store.abandon(new.id, new.nonce, &why).await {
            tracing::error!(environment = %new.id, "a failed creation could not be recorded: {error}");
        }
    }
}

/// The settings with the repository's own, as its base branch has them here.
pub async fn with_repository_settings(
    repo: &Repository,
    settings: &Settings,
    default_branch: Option<&str>,
) -> Result<Settings, IsolationError> {
    let Some(base) = settings.base_branch().or(default_branch) else { return Ok(settings.clone()) };
    let remote = settings.remote().unwrap_or("origin");
    let refs = [format!("refs/remotes/{remote}/{base}"), format!("refs/heads/{base}")];
    match repo.file_of_first(&refs, REPOSITORY_FILE).await? {
        Some((_, bytes)) => Ok(settings.with_repository_file(&String::from_utf8_lossy(&bytes), base)?),
        None => Ok(settings.clone()),
    }
}

/// Refuses, before git starts, what settings and disk do not allow.
fn check_place(path: &Path, settings: &Settings) -> Result<(), IsolationError> {
    if let Some(root) = settings.allowed_root()
        && !places::is_beneath(path, &root)
    {
        return Err(IsolationError::OutsideRoot { path: path.to_owned(), root });
    }
    let Some(there) = path.ancestors().find(|dir| dir.is_dir()) else { return Ok(()) };
    let stat = rustix::fs::statvfs(there).map_err(|error| IsolationError::Io {
        what: format!("{} cannot be measured", there.display()),
        source: error.into(),
    })?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free < settings.min_free_disk() {
        let wanted = human_size(settings.min_free_disk());
        return Err(IsolationError::LittleSpace { path: there.to_owned(), free: human_size(free), wanted });
    }
    Ok(())
}
