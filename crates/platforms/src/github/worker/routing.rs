//! The codebase that a repository is.

use grove_model::{Codebase, RepositoryHint};
use grove_store::StoreError;

use crate::github::adapter::Adapter;
use crate::github::repo::RepoName;
use crate::github::web_address::{Web, is_repo};

/// Where the work of a repository goes.
pub(crate) enum Home {
    Known(Box<Codebase>),
    /// It is cloned for the first work that comes in.
    New(RepositoryHint),
    /// Nowhere, and why.
    Refused(String),
}

impl Adapter {
    pub(crate) async fn home_of(&self, repo: &RepoName) -> Result<Home, StoreError> {
        let listed = self.repos.iter().any(|listed| listed.is(repo));
        if !self.repos.is_empty() && !listed {
            return Ok(Home::Refused(format!("{repo} is not in adapters.github.repos")));
        }
        if let Some(codebase) = self.codebase_of(repo).await? {
            return Ok(Home::Known(Box::new(codebase)));
        }
        Ok(match self.web.as_ref().filter(|_| listed) {
            Some(web) => Home::New(RepositoryHint { name: repo.to_string(), url: web.address(repo) }),
            None => Home::Refused(format!("{repo} is not registered")),
        })
    }

    /// The repositories that are worked for, as far as they are known.
    pub(crate) async fn watched(&self) -> Result<Vec<RepoName>, StoreError> {
        if !self.repos.is_empty() {
            return Ok(self.repos.clone());
        }
        let Some(web) = &self.web else { return Ok(Vec::new()) };
        let codebases = self.talks.store.codebases().await?;
        Ok(codebases.iter().filter_map(|codebase| web.repo_of(codebase.repository_url.as_deref()?)).collect())
    }

    /// The codebase of a repository: the one whose remote it is, or may be; or the only one, if that is no
    /// other repository.
    pub(crate) async fn codebase_of(&self, repo: &RepoName) -> Result<Option<Codebase>, StoreError> {
        let mut all = self.talks.store.codebases().await?;
        let found = [Web::repo_of, Web::repo_perhaps].into_iter().find_map(|read| {
            let is_it = |codebase: &Codebase| {
                let remote = self.web.as_ref().zip(codebase.repository_url.as_deref());
                remote.and_then(|(web, url)| read(web, url)).is_some_and(|remote| remote.is(repo))
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
