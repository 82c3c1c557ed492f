//! A checkout that was moved: recognised, and found again at its new place.
//!
//! The record knows a repository by its common directory. What proves that one elsewhere is the same: it
//! holds git's entry, the lock or the trash of an environment of ours. Another clone of the same remote
//! has none of these.

use std::path::{Path, PathBuf};

use grove_git::{Repository, links};
use grove_model::{Codebase, Environment, Status};

use crate::codebases::{CodebaseError, Codebases};
use crate::paths;

impl Codebases {
    /// Takes a codebase's new place into the record. Refused where its checkout is still at the old one,
    /// where another repository is at the new one, and while an environment is on its way.
    pub async fn move_to(&self, codebase: &Codebase, path: &Path) -> Result<Codebase, CodebaseError> {
        if is_there(codebase) {
            let at = codebase.default_cwd.clone();
            return Err(CodebaseError::NotMoved { name: codebase.name.clone(), at });
        }
        let repository = Repository::discover(&self.git, path).await?;
        if let Some(root) = self.settings.allowed_root()
            && !paths::is_beneath(&repository.root, &root)
        {
            return Err(CodebaseError::OutsideRoot { path: repository.root, root });
        }
        let environments = self.store.environments(codebase.id, true).await?;
        let busy = |status: Status| {
            matches!(status, Status::Creating | Status::Initializing | Status::Merging | Status::Removing)
        };
        if let Some(environment) = environments.iter().find(|environment| busy(environment.status)) {
            let reasons = vec![(environment.branch.to_string(), super::Unsaved::Busy(environment.status))];
            return Err(CodebaseError::Unsaved { name: codebase.name.clone(), reasons });
        }
        if let Some(why) = self.difference(codebase, &repository, &environments).await? {
            let name = codebase.name.clone();
            return Err(CodebaseError::AnotherRepository { name, path: repository.root, why });
        }
        // The worktrees' own links first: they can be made right as often as one likes.
        repository.repair_worktrees().await?;
        self.store.move_codebase(codebase.id, &repository.root, &repository.common_dir).await?;
        self.named(&codebase.id.to_string()).await
    }

    /// The codebase that this repository was registered as before it was moved.
    pub(super) async fn registered_elsewhere(
        &self,
        repository: &Repository,
    ) -> Result<Option<Codebase>, CodebaseError> {
        for codebase in self.store.codebases().await? {
            if is_there(&codebase) {
                continue;
            }
            let environments = self.store.environments(codebase.id, true).await?;
            if self.difference(&codebase, repository, &environments).await?.is_none() {
                return Ok(Some(codebase));
            }
        }
        Ok(None)
    }

    /// Why a repository is not the one that a codebase was registered for; `None`: it is.
    async fn difference(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environments: &[Environment],
    ) -> Result<Option<String>, CodebaseError> {
        let remotes = repository.remotes().await?;
        if let Some(url) = &codebase.repository_url
            && !remotes.iter().any(|remote| remote.url == *url)
        {
            return Ok(Some(format!("none of its remotes is {url}")));
        }
        let live = environments.iter().filter(|environment| environment.status != Status::Destroyed);
        for sha in live.filter_map(|environment| environment.base_sha.as_ref()) {
            if repository.commit_of(sha.as_str()).await?.is_none() {
                return Ok(Some(format!("it does not have the commit {}", sha.short())));
            }
        }
        let entries = links::entries(&repository.common_dir).map_err(|source| CodebaseError::Io {
            what: format!("the worktrees of {} cannot be listed", repository.root.display()),
            source,
        })?;
        let known: Vec<PathBuf> = entries.iter().filter_map(|entry| links::worktree_of(entry).ok().flatten()).collect();
        let grove = repository.common_dir.join("grove");
        let is_ours = |environment: &Environment| {
            let id = environment.id.to_string();
            known.contains(&environment.path)
                || grove.join("locks").join(&id).exists()
                || grove.join("trash").join(&id).exists()
        };
        Ok((!environments.iter().any(is_ours)).then(|| "it has none of the codebase's worktrees".to_owned()))
    }
}

/// Whether a codebase's repository is where it was recorded.
pub(crate) fn is_there(codebase: &Codebase) -> bool {
    codebase.git_common_dir.is_dir()
}
