//! From a wish to an environment.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grove_git::{Git, Repository};
use grove_model::{BranchName, Codebase, Environment, EnvironmentId, Moment, Nonce, Status, Work, human_size};
use grove_store::{Claim, NewEnvironment, Store};

use super::journal::{StoreJournal, fault_point};
use super::{IsolationError, IsolationProvider, IsolationRequest, Made, WorktreeProvider, mirror, places};
use crate::owner::{LEASE, is_gone, node, this_process};
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

/// How long somebody who makes the same environment is waited for.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

enum Tried {
    Done(Box<Outcome>),
    /// Another process has begun it.
    InTheMaking(Box<Environment>),
}

impl Tried {
    fn reused(environment: Environment) -> Self {
        Tried::Done(Box::new(Outcome { environment, new: None }))
    }
}

#[derive(Clone)]
pub struct Isolation {
    pub(super) git: Git,
    pub(super) store: Store,
    settings: Settings,
    pub(super) provider: Arc<dyn IsolationProvider>,
    /// This machine, as records name it.
    pub(super) node: String,
}

impl Isolation {
    pub fn new(git: Git, store: Store, settings: Settings) -> Self {
        let provider = Arc::new(WorktreeProvider::new(git.clone()));
        Self { git, store, settings, provider, node: node() }
    }

    /// The environment of a work: the one that it has, or a new one. Somebody who is making it
    /// right now is waited for; somebody who ended half way is cleaned up after.
    pub async fn create(&self, codebase: &Codebase, wish: &Wish) -> Result<Outcome, IsolationError> {
        let began = Instant::now();
        let mut pause = Duration::from_millis(20);
        loop {
            let holder = match self.try_create(codebase, wish).await? {
                Tried::Done(outcome) => return Ok(*outcome),
                Tried::InTheMaking(holder) => holder,
            };
            if self.recover(codebase, &holder).await? {
                continue;
            }
            if began.elapsed() > PATIENCE {
                return Err(IsolationError::InTheMaking { work: wish.work.key().to_string() });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    async fn try_create(&self, codebase: &Codebase, wish: &Wish) -> Result<Tried, IsolationError> {
        if let Some(environment) = self.existing(codebase, &wish.work).await? {
            return match (environment.status, &wish.from) {
                (Status::Creating, _) => Ok(Tried::InTheMaking(Box::new(environment))),
                (_, Some(_)) => Err(IsolationError::HasEnvironment {
                    work: wish.work.key().to_string(),
                    branch: environment.branch,
                }),
                (_, None) => Ok(Tried::reused(environment)),
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
            owner: this_process().clone(),
            lease_until: Moment::now().plus(LEASE),
        };
        match self.store.claim(&new).await? {
            Claim::Won(_) => {
                self.make(codebase, wish, &settings, &new).await.map(|outcome| Tried::Done(Box::new(outcome)))
            }
            Claim::Held(holder) if holder.status == Status::Creating && self.concerns(&holder, &new) => {
                Ok(Tried::InTheMaking(Box::new(holder)))
            }
            Claim::Held(holder) if holder.work == new.work => Ok(Tried::reused(holder)),
            Claim::Held(holder) => {
                Err(IsolationError::Held { work: holder.work.to_string(), branch: holder.branch, path: holder.path })
            }
        }
    }

    /// Whether waiting for (or cleaning up after) this creation may help: it is for the same work,
    /// its owner is gone, or it only has the folder that we wanted.
    fn concerns(&self, holder: &Environment, new: &NewEnvironment) -> bool {
        let gone = holder.owner.as_ref().is_none_or(|owner| is_gone(owner, holder.lease_until, Moment::now()));
        holder.work == new.work || gone || holder.branch != new.branch
    }

    /// The live environment of a work, if its directory is there. One that is gone is marked so.
    async fn existing(&self, codebase: &Codebase, work: &Work) -> Result<Option<Environment>, IsolationError> {
        let Some(environment) = self.store.environment_of(codebase.id, work.key()).await? else { return Ok(None) };
        let gone = environment.status == Status::Active && !environment.path.exists();
        if !gone || environment.node != self.node {
            if environment.status == Status::Active {
                self.settle(codebase, &environment)?;
            }
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
        let journal = StoreJournal { store: self.store.clone(), environment: new.id };
        fault_point("claimed");
        let request = IsolationRequest {
            codebase,
            work: &wish.work,
            branch: &new.branch,
            path: &new.path,
            from: wish.from.as_deref(),
            nonce: new.nonce,
            settings,
            journal: &journal,
        };
        let made = tokio::select! {
            made = self.provider.create(&request) => made,
            never = self.keep_lease(new) => match never {},
        };
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                self.abandon(new, &error).await;
                return Err(error);
            }
        };
        fault_point("furnished");
        let Made { head, base, facts, mut notes, unfinished } = made;
        let base = base.as_ref().map(|base| (base.name.as_str(), &base.sha));
        let environment = match self.store.activate(new.id, new.nonce, base, &head).await {
            Ok(environment) => environment,
            Err(error) => {
                for left in unfinished.take_back().await {
                    tracing::warn!(path = %new.path.display(), "taking an environment back: {left}");
                }
                let error = error.into();
                self.abandon(new, &error).await;
                return Err(error);
            }
        };
        fault_point("activated");
        // From here on the environment is whole; what fails now is put right by the next look.
        if let Err(error) = unfinished.finish() {
            notes.push(crate::words::kept_error(&error));
        }
        fault_point("unlocked");
        if let Err(error) = mirror::write(codebase, &environment) {
            notes.push(format!("the environment's facts could not be mirrored to {}: {error}", mirror::FOLDER));
        }
        if let Err(error) = journal.note("active", None).await {
            tracing::warn!(environment = %new.id, "the last step could not be recorded: {error}");
        }
        Ok(Outcome { environment, new: Some(New { facts, notes }) })
    }

    /// Says again and again that we are at work, for other machines. Never ends by itself.
    async fn keep_lease(&self, new: &NewEnvironment) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(Duration::from_secs(LEASE.unsigned_abs().as_secs() / 3)).await;
            if let Err(error) = self.store.renew(new.id, &new.owner, Moment::now().plus(LEASE)).await {
                tracing::warn!(environment = %new.id, "the lease could not be renewed: {error}");
            }
        }
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
