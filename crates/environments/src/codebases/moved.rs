//! Recognises a checkout that was moved, and finds it at its new path.
//!
//! The record identifies a repository by its common directory. A repository at another path is proven to be
//! the same if it holds git's entry, the lock or the trash of one of our environments. Another clone of the
//! same remote has none of these.

use std::path::{Path, PathBuf};

use grove_git::{Repository, links};
use grove_model::{Codebase, Environment, Status};

use crate::codebases::{CodebaseError, Codebases};
use crate::paths;

impl Codebases {
    /// Records a codebase's new path. It is refused while the checkout is still at the old path, if another
    /// repository is at the new one, and while an environment is in a transition.
    pub async fn move_to(&self, codebase: &Codebase, path: &Path) -> Result<Codebase, CodebaseError> {
        if is_there(codebase) {
            let at = codebase.default_cwd.clone();
            return Err(CodebaseError::NotMoved { name: codebase.name.clone(), at });
        }
        let repository = Repository::discover_repository(&self.git, path).await?;
        if let Some(root) = self.settings.current().allowed_root()
            && !paths::is_beneath(&repository.root, &root)
        {
            return Err(CodebaseError::OutsideRoot { path: repository.root, root });
        }
        let environments = self.store.list_environments(codebase.id, true).await?;
        let busy = |status: Status| {
            matches!(status, Status::Creating | Status::Initializing | Status::Merging | Status::Removing)
        };
        if let Some(environment) = environments.iter().find(|environment| busy(environment.status)) {
            let reasons = vec![(environment.branch.to_string(), super::UnsavedWork::Busy(environment.status))];
            return Err(CodebaseError::Unsaved { name: codebase.name.clone(), reasons });
        }
        if let Some(why) = self.find_repository_difference(codebase, &repository, &environments).await? {
            let name = codebase.name.clone();
            return Err(CodebaseError::AnotherRepository { name, path: repository.root, why });
        }
        // The links of the worktrees come first: repairing them can be repeated.
        repository.repair_worktrees().await?;
        self.store.move_codebase(codebase.id, &repository.root, &repository.common_dir).await?;
        self.find_codebase(&codebase.id.to_string()).await
    }

    /// Returns the codebase that this repository was registered as before it was moved.
    pub(super) async fn registered_elsewhere(
        &self,
        repository: &Repository,
    ) -> Result<Option<Codebase>, CodebaseError> {
        for codebase in self.store.list_codebases().await? {
            if is_there(&codebase) {
                continue;
            }
            let environments = self.store.list_environments(codebase.id, true).await?;
            if self.find_repository_difference(&codebase, repository, &environments).await?.is_none() {
                return Ok(Some(codebase));
            }
        }
        Ok(None)
    }

    /// Returns the reason why a repository is not the one that a codebase was registered for; `None` if it is
    /// the one.
    async fn find_repository_difference(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environments: &[Environment],
    ) -> Result<Option<String>, CodebaseError> {
        let remotes = repository.list_remotes().await?;
        if let Some(url) = &codebase.repository_url
            && !remotes.iter().any(|remote| remote.url == *url)
        {
            return Ok(Some(format!("none of its remotes is {url}")));
        }
        let live = environments.iter().filter(|environment| environment.status != Status::Destroyed);
        for sha in live.filter_map(|environment| environment.base_sha.as_ref()) {
            if repository.commit_of(sha.as_str()).await?.is_none() {
                return Ok(Some(format!("it does not have the commit {}", sha.short_sha())));
            }
        }
        let entries = links::list_entries(&repository.common_dir).map_err(|source| CodebaseError::Io {
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

/// Tells whether a codebase's repository is at its recorded path.
pub(crate) fn is_there(codebase: &Codebase) -> bool {
    codebase.git_common_dir.is_dir()
}
