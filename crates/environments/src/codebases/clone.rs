//! A repository that is cloned for the work that comes in from it.
//!
//! It is cloned aside and renamed when it is whole, under a lock of its place: two who ask at once
//! clone once, and what a crash leaves is never taken for a repository. A clone that is whole but was
//! not registered yet is registered by the next who asks.

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
    /// Where a repository is cloned to: `GROVE_HOME/workspaces/<owner>/<repo>`.
    pub fn workspace(&self, repository: &RepositoryHint) -> PathBuf {
        let workspaces = self.settings.home().join("workspaces");
        let (owner, name) = repository.name.rsplit_once('/').unwrap_or(("_local", &repository.name));
        workspaces.join(FolderName::sanitise(owner).to_string()).join(FolderName::sanitise(name).to_string())
    }

    /// The codebase that a repository is, if it was registered already.
    pub async fn of_repository(&self, repository: &RepositoryHint) -> Result<Option<Codebase>, CodebaseError> {
        let same = |codebase: &Codebase| codebase.repository_url.as_deref().is_some_and(|url| is(url, &repository.url));
        Ok(self.store.codebases().await?.into_iter().find(same))
    }

    /// Clones a repository and registers it, unless somebody did so already.
    pub async fn clone_workspace(&self, repository: &RepositoryHint) -> Result<Codebase, CodebaseError> {
        let target = self.workspace(repository);
        if let Some(root) = self.settings.allowed_root()
            && !paths::is_beneath(&target, &root)
        {
            return Err(CodebaseError::OutsideRoot { path: target, root });
        }
        let _lock = lock(&target).await?;
        if let Some(codebase) = self.of_repository(repository).await? {
            return Ok(codebase);
        }
        let cloned = match target.symlink_metadata() {
            Ok(_) => self.left_there(&target, &repository.url).await?,
            Err(_) => clone(&self.git, &repository.url, &target).await?,
        };
        self.register(&cloned, None, true).await
    }

    /// A clone of the same repository that nobody registered.
    async fn left_there(&self, target: &Path, url: &str) -> Result<Repository, CodebaseError> {
        let taken = || CodebaseError::CloneTaken(target.to_owned());
        let repository = Repository::discover(&self.git, target).await.map_err(|_| taken())?;
        let remotes = repository.remotes().await?;
        let real = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let same = repository.root == real && remotes.iter().any(|remote| is(&remote.url, url));
        if same { Ok(repository) } else { Err(taken()) }
    }
}

/// Whether two addresses name one repository; forges do not tell upper from lower case.
fn is(one: &str, other: &str) -> bool {
    let plain = |url: &str| {
        let url = url.trim_end_matches('/');
        url.strip_suffix(".git").unwrap_or(url).to_lowercase()
    };
    plain(one) == plain(other)
}

fn hidden(target: &Path, ending: &str) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{ending}"))
}

/// Waits for the right to clone to a place.
pub(super) async fn lock(target: &Path) -> Result<FileLock, CodebaseError> {
    let parent = target.parent().unwrap_or(target);
    let failed = |source| CodebaseError::Io { what: format!("{} cannot be made", parent.display()), source };
    fs::create_dir_all(parent).map_err(failed)?;
    file_lock(&hidden(target, "lock")).await.map_err(failed)
}

/// Clones for whoever has the lock.
pub(super) async fn clone(git: &Git, url: &str, target: &Path) -> Result<Repository, CodebaseError> {
    let failed = |source| CodebaseError::Io { what: format!("{} cannot be made", target.display()), source };
    // What others left who were cut short: nobody else is at it.
    take_away_leftovers(target).await.map_err(failed)?;
    let aside = hidden(target, &format!("cloning-{}", Nonce::new()));
    let cloned = Repository::clone_to(git, url, &aside).await;
    if let Err(error) = cloned {
        drop(fs::remove_dir_all(&aside));
        return Err(match error {
            RepositoryError::Git(error @ (GitError::Failed { .. } | GitError::NoCredential { .. })) => {
                CodebaseError::CloneFailed { url: redact::credentials(url), line: error.line() }
            }
            other => other.into(),
        });
    }
    fs::rename(&aside, target).map_err(failed)?;
    Ok(Repository::discover(git, target).await?)
}

async fn take_away_leftovers(target: &Path) -> io::Result<()> {
    let prefix = hidden(target, "cloning-");
    let prefix = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for entry in fs::read_dir(target.parent().unwrap_or(target))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            // Its git may still be writing.
            end_calls_given(&entry.path()).await;
            match fs::remove_dir_all(entry.path()) {
                // A git that is asked to end takes it away itself.
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
        assert!(is("https://h/Octo/Shop.git", "https://h/octo/shop"));
        assert!(is("https://h/octo/shop/", "https://h/octo/shop.git"));
        assert!(
            !is("https://h/octo/shop", "https://g/octo/shop") && !is("https://h/octo/shop2", "https://h/octo/shop")
        );
    }
}
