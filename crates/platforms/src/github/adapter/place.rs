//! The codebase that a repository is.

use grove_model::{Codebase, RepositoryHint};
use grove_store::StoreError;

use super::Adapter;
use crate::github::repo::RepoName;

/// Where the work of a repository goes.
pub(super) enum Home {
    Known(Box<Codebase>),
    /// It is cloned for the first work that comes in.
    New(RepositoryHint),
    /// Nowhere, and why.
    Refused(String),
}

impl Adapter {
    pub(super) async fn home_of(&self, repo: &RepoName) -> Result<Home, StoreError> {
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
    pub(super) async fn watched(&self) -> Result<Vec<RepoName>, StoreError> {
        if !self.repos.is_empty() {
            return Ok(self.repos.clone());
        }
        let Some(web) = &self.web else { return Ok(Vec::new()) };
        let codebases = self.talks.store.codebases().await?;
        Ok(codebases.iter().filter_map(|codebase| web.repo_of(codebase.repository_url.as_deref()?)).collect())
    }

    /// The codebase of a repository: the one whose remote it is, or whose remote has its name on a host
    /// that may be GitHub; or the only one, if that is no other repository.
    pub(super) async fn codebase_of(&self, repo: &RepoName) -> Result<Option<Codebase>, StoreError> {
        let mut all = self.talks.store.codebases().await?;
        let here = |codebase: &Codebase| {
            let url = codebase.repository_url.as_deref();
            url.zip(self.web.as_ref()).and_then(|(url, web)| web.repo_of(url)).is_some_and(|remote| remote.is(repo))
        };
        let may_be = |host: &str| self.web.as_ref().is_none_or(|web| web.may_be(host));
        let named = |codebase: &Codebase| remote(codebase).is_some_and(|(host, name)| may_be(&host) && name.is(repo));
        if let Some(at) = all.iter().position(here).or_else(|| all.iter().position(named)) {
            return Ok(Some(all.swap_remove(at)));
        }
        let only = if all.len() == 1 { all.pop() } else { None };
        Ok(only.filter(|only| remote(only).is_none()))
    }
}

/// The host and the repository that a codebase's remote is, as far as its address tells.
fn remote(codebase: &Codebase) -> Option<(String, RepoName)> {
    let url = codebase.repository_url.as_deref()?;
    // `https://host/owner/name.git`, `git@host:owner/name.git`; a path of this machine is none.
    let (authority, path) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?,
        None => url.split_once(':').filter(|(host, _)| !host.contains('/'))?,
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    Some((host.to_owned(), RepoName::parse(path.trim_matches('/').trim_end_matches(".git"))?))
}
