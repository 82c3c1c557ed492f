//! Finds the codebase of a repository.

use grove_model::{Codebase, RepositoryHint};
use grove_store::StoreError;

use crate::github::adapter::GithubAdapter;
use crate::github::repo::RepoName;
use crate::github::web_address::{GithubWeb, is_repo};

/// The codebase that handles a repository.
pub(crate) enum CodebaseTarget {
    Known(Box<Codebase>),
    /// The repository is cloned for its first message.
    New(RepositoryHint),
    /// No codebase, for this reason.
    Refused(String),
}

impl GithubAdapter {
    pub(crate) async fn home_of(&self, repo: &RepoName) -> Result<CodebaseTarget, StoreError> {
        let listed = self.repos.iter().any(|listed| listed.is_same_repo(repo));
        if !self.repos.is_empty() && !listed {
            return Ok(CodebaseTarget::Refused(format!("{repo} is not in adapters.github.repos")));
        }
        if let Some(codebase) = self.codebase_of(repo).await? {
            return Ok(CodebaseTarget::Known(Box::new(codebase)));
        }
        Ok(match self.web.as_ref().filter(|_| listed) {
            Some(web) => CodebaseTarget::New(RepositoryHint { name: repo.to_string(), url: web.clone_url(repo) }),
            None => CodebaseTarget::Refused(format!("{repo} is not registered")),
        })
    }

    /// Returns the known repositories that are served.
    pub(crate) async fn watched_repositories(&self) -> Result<Vec<RepoName>, StoreError> {
        if !self.repos.is_empty() {
            return Ok(self.repos.clone());
        }
        let Some(web) = &self.web else { return Ok(Vec::new()) };
        let codebases = self.conversations.store.list_codebases().await?;
        Ok(codebases.iter().filter_map(|codebase| web.repo_of(codebase.repository_url.as_deref()?)).collect())
    }

    /// Returns the codebase of a repository: the one whose remote it is, or may be; or the only one, if that
    /// is no other repository.
    pub(crate) async fn codebase_of(&self, repo: &RepoName) -> Result<Option<Codebase>, StoreError> {
        let mut all = self.conversations.store.list_codebases().await?;
        let found = [GithubWeb::repo_of, GithubWeb::repo_perhaps].into_iter().find_map(|read| {
            let is_it = |codebase: &Codebase| {
                let remote = self.web.as_ref().zip(codebase.repository_url.as_deref());
                remote.and_then(|(web, url)| read(web, url)).is_some_and(|remote| remote.is_same_repo(repo))
            };
            all.iter().position(is_it)
        });
        if let Some(at) = found {
            return Ok(Some(all.swap_remove(at)));
        }
        let only = if all.len() == 1 { all.pop() } else { None };
        Ok(only.filter(|only| !only.repository_url.as_deref().is_some_and(is_repo)))
    }
}
