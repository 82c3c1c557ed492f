//! Registers repositories, and finds the codebase that a command means.

mod clone;
pub(crate) mod moved;

use std::path::{Path, PathBuf};
use std::{fmt, io};

use grove_git::base::{BaseError, choose_remote};
use grove_git::clone::owner_and_name;
use grove_git::network::is_url;
use grove_git::repository::RepositoryError;
use grove_git::{Git, GitError, ProgressCallback, Repository};
use grove_model::{Codebase, FolderName, RepositoryFolders, Status, short_hash};
use grove_store::{NewCodebase, Store, StoreError};

use crate::paths;
use crate::provider::IsolationProvider;
use crate::provider::disk::DiskFacts;
use crate::provider::worktree::WorktreeProvider;
use crate::settings::LiveSettings;

#[derive(Debug, thiserror::Error)]
pub enum CodebaseError {
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error(transparent)]
    Base(#[from] BaseError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("`{0}` cannot be the name of a codebase")]
    BadName(String),
    #[error("this repository is registered already, as `{name}`, and was not renamed to `{wanted}`")]
    AlreadyNamed { wanted: String, name: String },
    #[error("{} is outside of {}, where repositories may be", path.display(), root.display())]
    OutsideRoot { path: PathBuf, root: PathBuf },
    #[error("{} exists already, so nothing was cloned", .0.display())]
    CloneTaken(PathBuf),
    #[error("`{url}` could not be cloned: {line}")]
    CloneFailed { url: String, line: String },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("no codebase is called `{name}`")]
    Unknown { name: String, known: Vec<String> },
    #[error("several codebases are registered and this directory is in none of them")]
    Which(Vec<String>),
    #[error("no codebase is registered")]
    None,
    #[error("{} is the checkout of `{name}`, which was at {}", to.display(), from.display())]
    CheckoutMoved { name: String, from: PathBuf, to: PathBuf },
    #[error("`{name}` was not moved: its checkout is still at {}", at.display())]
    NotMoved { name: String, at: PathBuf },
    #[error("{} is not the checkout of `{name}`: {why}", path.display())]
    AnotherRepository { name: String, path: PathBuf, why: String },
    #[error("`{name}` has environments with unsaved work")]
    Unsaved { name: String, reasons: Vec<(String, UnsavedWork)> },
}

/// The reason why an environment must not be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnsavedWork {
    Changes,
    Untracked(usize),
    Busy(Status),
    Unknown(String),
}

impl UnsavedWork {
    pub(crate) fn error_code(&self) -> &'static str {
        match self {
            UnsavedWork::Changes => "uncommitted_changes",
            UnsavedWork::Untracked(_) => "untracked_files",
            UnsavedWork::Busy(_) => "busy",
            UnsavedWork::Unknown(_) => "unknown",
        }
    }
}

impl fmt::Display for UnsavedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnsavedWork::Changes => write!(f, "has uncommitted changes"),
            UnsavedWork::Untracked(1) => write!(f, "has an untracked file"),
            UnsavedWork::Untracked(files) => write!(f, "has {files} untracked files"),
            UnsavedWork::Busy(status) => write!(f, "is {status}"),
            UnsavedWork::Unknown(why) => write!(f, "could not be looked at ({why})"),
        }
    }
}

/// The reason why a codebase was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodebaseChoice {
    Named,
    /// The directory is in it.
    Here,
    /// The directory is in no repository, and no other codebase is registered.
    OnlyOne,
}

/// The codebases of one store.
#[derive(Clone, Debug)]
pub struct Codebases {
    pub git: Git,
    pub store: Store,
    pub settings: LiveSettings,
}

impl Codebases {
    /// Reports the progress of clones to a callback.
    pub fn reporting_progress(self, callback: ProgressCallback) -> Self {
        Self { git: self.git.with_progress(callback), ..self }
    }

    /// Registers the repository at a path or address, or returns its existing registration.
    pub async fn add_codebase(&self, place: &str, name: Option<&str>, cwd: &Path) -> Result<Codebase, CodebaseError> {
        let cloned = is_url(place);
        if let Some(name) = name {
            let good = |c: char| c.is_alphanumeric() || ".-_/".contains(c);
            if name.is_empty() || name.starts_with('-') || name.len() > 100 || !name.chars().all(good) {
                return Err(CodebaseError::BadName(name.escape_debug().to_string()));
            }
        }
        let repository = if cloned {
            self.clone_here(place).await?
        } else {
            Repository::discover_repository(&self.git, &cwd.join(place)).await?
        };
        self.register_repository(&repository, name, cloned).await
    }

    /// Registers a repository that is already open.
    pub async fn register_repository(
        &self,
        repository: &Repository,
        name: Option<&str>,
        cloned: bool,
    ) -> Result<Codebase, CodebaseError> {
        if let Some(root) = self.settings.current().allowed_root()
            && !paths::is_beneath(&repository.root, &root)
        {
            return Err(CodebaseError::OutsideRoot { path: repository.root.clone(), root });
        }
        if self.store.codebase_of_repository(&repository.common_dir).await?.is_none()
            && let Some(moved) = self.registered_elsewhere(repository).await?
        {
            let (from, to) = (moved.default_cwd, repository.root.clone());
            return Err(CodebaseError::CheckoutMoved { name: moved.name, from, to });
        }
        let remotes = repository.list_remotes().await?;
        // Several remotes without a choice do not prevent the registration; a creation will ask.
        let remote = choose_remote(self.settings.current().remote_name(), &remotes).unwrap_or_default();
        let url = remote.as_deref().and_then(|name| remotes.iter().find(|r| r.name == name)).map(|r| r.url.clone());
        let default_branch = if remote.is_some() || remotes.is_empty() {
            repository.default_branch(remote.as_deref()).await?
        } else {
            None
        };
        let identity = RepositoryIdentity::from_repository(repository, url.as_deref());
        let new = NewCodebase {
            given_name: name.map(str::to_owned),
            name: identity.name.clone(),
            repository_url: url,
            default_cwd: repository.root.clone(),
            git_common_dir: repository.common_dir.clone(),
            default_branch,
            cloned,
            folders: identity.worktree_folders(false),
            hashed_folders: identity.worktree_folders(true),
            hashed_name: format!("{}-{}", identity.name, identity.hash),
        };
        let codebase = self.store.register_codebase(&new).await?;
        match name {
            Some(wanted) if wanted != codebase.name => {
                Err(CodebaseError::AlreadyNamed { wanted: wanted.to_owned(), name: codebase.name })
            }
            _ => Ok(codebase),
        }
    }

    async fn clone_here(&self, url: &str) -> Result<Repository, CodebaseError> {
        let path = match owner_and_name(url) {
            Some((owner, name)) => format!("{}/{}", FolderName::from_text(&owner), FolderName::from_text(&name)),
            None => {
                let last = url.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or(url);
                format!("_local/{}", FolderName::from_text(last.strip_suffix(".git").unwrap_or(last)))
            }
        };
        let target = self.settings.current().home_path().join("repos").join(path);
        let _lock = clone::lock_clone_target(&target).await?;
        if target.symlink_metadata().is_ok() {
            return Err(CodebaseError::CloneTaken(target));
        }
        clone::clone_locked_target(&self.git, url, &target).await
    }

    pub async fn find_codebase(&self, name: &str) -> Result<Codebase, CodebaseError> {
        let all = self.store.list_codebases().await?;
        let known = all.iter().map(|codebase| codebase.name.clone()).collect();
        let found = all.into_iter().find(|codebase| codebase.name == name || codebase.id.to_string() == name);
        found.ok_or_else(|| CodebaseError::Unknown { name: name.to_owned(), known })
    }

    /// Returns the codebase that is meant: the one named, the one that `cwd` is in, or the only one.
    pub async fn resolve_codebase(&self, name: Option<&str>, cwd: &Path) -> Result<Codebase, CodebaseError> {
        if let Some(name) = name {
            return self.find_codebase(name).await;
        }
        if let Some(repository) = self.repository_at(cwd).await?
            && let Some(codebase) = self.store.codebase_of_repository(&repository.common_dir).await?
        {
            return Ok(codebase);
        }
        self.only_or_named(None).await
    }

    /// Returns the codebase of this name, or the only one.
    pub async fn only_or_named(&self, name: Option<&str>) -> Result<Codebase, CodebaseError> {
        if let Some(name) = name {
            return self.find_codebase(name).await;
        }
        let mut all = self.store.list_codebases().await?;
        match all.len() {
            0 => Err(CodebaseError::None),
            1 => Ok(all.remove(0)),
            _ => Err(CodebaseError::Which(all.into_iter().map(|codebase| codebase.name).collect())),
        }
    }

    /// Returns the codebase that is meant and why, and registers the repository at `cwd` if it is not
    /// registered yet: a request for a worktree in it is reason enough.
    pub async fn meant_or_registered(
        &self,
        name: Option<&str>,
        cwd: &Path,
    ) -> Result<(Codebase, CodebaseChoice), CodebaseError> {
        if let Some(name) = name {
            return Ok((self.find_codebase(name).await?, CodebaseChoice::Named));
        }
        let Some(repository) = self.repository_at(cwd).await? else {
            return Ok((self.only_or_named(None).await?, CodebaseChoice::OnlyOne));
        };
        let codebase = match self.store.codebase_of_repository(&repository.common_dir).await? {
            Some(codebase) => codebase,
            None => self.register_repository(&repository, None, false).await?,
        };
        Ok((codebase, CodebaseChoice::Here))
    }

    async fn repository_at(&self, cwd: &Path) -> Result<Option<Repository>, CodebaseError> {
        match Repository::discover_repository(&self.git, cwd).await {
            Ok(repository) => Ok(Some(repository)),
            Err(RepositoryError::NotARepository(_) | RepositoryError::NotThere(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a registration. It is refused while an environment holds unsaved work or cannot be inspected. The
    /// other environments are released: their records end, their folders and branches stay.
    pub async fn remove_codebase(&self, codebase: &Codebase) -> Result<Vec<PathBuf>, CodebaseError> {
        let environments = self.store.list_environments(codebase.id, false).await?;
        let facts = WorktreeProvider::new(self.git.clone()).inspect(codebase, &environments).await;
        let mut reasons = Vec::new();
        for (environment, facts) in environments.iter().zip(&facts) {
            let branch = environment.branch.to_string();
            match (environment.status, facts) {
                (Status::Active | Status::Failed | Status::Hibernated, Ok(DiskFacts::Missing)) => {}
                (Status::Active | Status::Failed, Ok(DiskFacts::Present(here))) => {
                    if here.status.is_changed() {
                        reasons.push((branch.clone(), UnsavedWork::Changes));
                    }
                    if here.status.counts.untracked > 0 {
                        reasons.push((branch, UnsavedWork::Untracked(here.status.counts.untracked)));
                    }
                }
                (Status::Active | Status::Failed | Status::Hibernated, Ok(DiskFacts::NotMounted)) => {
                    reasons.push((branch, UnsavedWork::Unknown("its disk is not mounted".to_owned())));
                }
                (_, Err(why)) => reasons.push((branch, UnsavedWork::Unknown(why.clone()))),
                (status, _) => reasons.push((branch, UnsavedWork::Busy(status))),
            }
        }
        if !reasons.is_empty() {
            return Err(CodebaseError::Unsaved { name: codebase.name.clone(), reasons });
        }
        let mut left = Vec::new();
        for environment in &environments {
            self.store.advance_status(environment.id, environment.status, Status::Destroyed, None).await?;
            left.extend(environment.path.exists().then(|| environment.path.clone()));
        }
        self.store.unregister_codebase(codebase.id).await?;
        Ok(left)
    }
}

/// The name of a repository, and the folders for its worktrees.
struct RepositoryIdentity {
    owner: Option<String>,
    name: String,
    hash: String,
}

impl RepositoryIdentity {
    fn from_repository(repository: &Repository, url: Option<&str>) -> Self {
        let hash = short_hash(repository.common_dir.as_os_str().as_encoded_bytes(), 8);
        let folder = repository.root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = folder.strip_suffix(".git").map(str::to_owned).unwrap_or(folder);
        match url.and_then(owner_and_name) {
            Some((owner, name)) => Self { owner: Some(owner), name: FolderName::from_text(&name).to_string(), hash },
            None => Self { owner: None, name: FolderName::from_text(&folder).to_string(), hash },
        }
    }

    /// Returns the folders. Those of a repository without a remote that names an owner always contain the
    /// hash of its path.
    fn worktree_folders(&self, hashed: bool) -> RepositoryFolders {
        let project = if hashed { format!("{}-{}", self.name, self.hash) } else { self.name.clone() };
        let owner = match &self.owner {
            Some(owner) => format!("{}/{project}", FolderName::from_text(owner)),
            None => format!("_local/{}-{}", self.name, self.hash),
        };
        RepositoryFolders { owner, project }
    }
}
