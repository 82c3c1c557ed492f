//! Clones a repository for the work that comes in from it.
//!
//! The clone is made in a temporary folder and renamed when it is complete, under a lock on its target: two
//! requests at once clone once, and a crash never leaves a folder that is taken for a repository. The next
//! request registers a clone that is complete but was not registered yet.

use std::path::{Path, PathBuf};
use std::{fs, io};

use grove_git::lock::{FileLock, file_lock};
use grove_git::processes::end_calls_given;
use grove_git::repository::RepositoryError;
use grove_git::{Git, GitError, Repository, redact};
use grove_model::{Codebase, FolderName, Nonce, RepositoryHint};

use crate::codebases::{CodebaseError, Codebases};
use crate::paths;

impl Codebases {
    /// Returns the path that a repository is cloned to: `GROVE_HOME/workspaces/<owner>/<repo>`.
    pub fn workspace_path(&self, repository: &RepositoryHint) -> PathBuf {
        let workspaces = self.settings.current().home_path().join("workspaces");
        let (owner, name) = repository.name.rsplit_once('/').unwrap_or(("_local", &repository.name));
        workspaces.join(FolderName::from_text(owner).to_string()).join(FolderName::from_text(name).to_string())
    }

    /// Returns the codebase of a repository, if it is registered.
    pub async fn of_repository(&self, repository: &RepositoryHint) -> Result<Option<Codebase>, CodebaseError> {
        let same = |codebase: &Codebase| {
            codebase.repository_url.as_deref().is_some_and(|url| is_same_repository_url(url, &repository.url))
        };
        Ok(self.store.list_codebases().await?.into_iter().find(same))
    }

    /// Clones a repository and registers it, unless it is already registered.
    pub async fn clone_workspace(&self, repository: &RepositoryHint) -> Result<Codebase, CodebaseError> {
        let target = self.workspace_path(repository);
        if let Some(root) = self.settings.current().allowed_root()
            && !paths::is_beneath(&target, &root)
        {
            return Err(CodebaseError::OutsideRoot { path: target, root });
        }
        let _lock = lock_clone_target(&target).await?;
        if let Some(codebase) = self.of_repository(repository).await? {
            return Ok(codebase);
        }
        let cloned = match target.symlink_metadata() {
            Ok(_) => self.left_there(&target, &repository.url).await?,
            Err(_) => clone_locked_target(&self.git, &repository.url, &target).await?,
        };
        self.register_repository(&cloned, None, true).await
    }

    /// Returns a clone of the same repository that was not registered.
    async fn left_there(&self, target: &Path, url: &str) -> Result<Repository, CodebaseError> {
        let taken = || CodebaseError::CloneTaken(target.to_owned());
        let repository = Repository::discover_repository(&self.git, target).await.map_err(|_| taken())?;
        let remotes = repository.list_remotes().await?;
        let real = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let same = repository.root == real && remotes.iter().any(|remote| is_same_repository_url(&remote.url, url));
        if same { Ok(repository) } else { Err(taken()) }
    }
}

/// Tells whether two addresses name one repository; forges ignore upper and lower case.
fn is_same_repository_url(one: &str, other: &str) -> bool {
    let plain = |url: &str| {
        let url = url.trim_end_matches('/');
        url.strip_suffix(".git").unwrap_or(url).to_lowercase()
    };
    plain(one) == plain(other)
}

fn hidden_sibling_path(target: &Path, ending: &str) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{ending}"))
}

/// Waits for the lock on a clone target.
pub(super) async fn lock_clone_target(target: &Path) -> Result<FileLock, CodebaseError> {
    let parent = target.parent().unwrap_or(target);
    let failed = |source| CodebaseError::Io { what: format!("{} cannot be made", parent.display()), source };
    fs::create_dir_all(parent).map_err(failed)?;
    file_lock(&hidden_sibling_path(target, "lock")).await.map_err(failed)
}

/// Clones a repository. The caller holds the lock on the target.
pub(super) async fn clone_locked_target(git: &Git, url: &str, target: &Path) -> Result<Repository, CodebaseError> {
    let failed = |source| CodebaseError::Io { what: format!("{} cannot be made", target.display()), source };
    // Leftovers of interrupted clones: under the lock, no other process uses them.
    take_away_leftovers(target).await.map_err(failed)?;
    let aside = hidden_sibling_path(target, &format!("cloning-{}", Nonce::new()));
    let cloned = Repository::clone_to(git, url, &aside).await;
    if let Err(error) = cloned {
        drop(fs::remove_dir_all(&aside));
        return Err(match error {
            RepositoryError::Git(error @ (GitError::Failed { .. } | GitError::NoCredential { .. })) => {
                CodebaseError::CloneFailed { url: redact::redact_credentials(url), line: error.reason_line() }
            }
            other => other.into(),
        });
    }
    fs::rename(&aside, target).map_err(failed)?;
    Ok(Repository::discover_repository(git, target).await?)
}

async fn take_away_leftovers(target: &Path) -> io::Result<()> {
    let prefix = hidden_sibling_path(target, "cloning-");
    let prefix = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for entry in fs::read_dir(target.parent().unwrap_or(target))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            // The git process of that clone may still be writing.
            end_calls_given(&entry.path()).await;
            match fs::remove_dir_all(entry.path()) {
                // A git process that is asked to end deletes the folder itself.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_several_addresses() {
        assert!(is_same_repository_url("https://h/Octo/Shop.git", "https://h/octo/shop"));
        assert!(is_same_repository_url("https://h/octo/shop/", "https://h/octo/shop.git"));
        assert!(
            !is_same_repository_url("https://h/octo/shop", "https://g/octo/shop")
                && !is_same_repository_url("https://h/octo/shop2", "https://h/octo/shop")
        );
    }
}
