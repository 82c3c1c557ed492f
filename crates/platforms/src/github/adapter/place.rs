//! The codebase that a repository is.

use grove_model::Codebase;
use grove_store::StoreError;

use super::Adapter;
use crate::github::repo::RepoName;

impl Adapter {
    /// The codebase of a repository: the one whose remote it is, or the only one, if that is not plainly
    /// another repository.
    pub(super) async fn codebase_of(&self, repo: &RepoName) -> Result<Option<Codebase>, StoreError> {
        let mut all = self.talks.store.codebases().await?;
        let is_it = |codebase: &Codebase| remote(codebase).is_some_and(|remote| remote.is(repo));
        if let Some(at) = all.iter().position(is_it) {
            return Ok(Some(all.swap_remove(at)));
        }
        let only = if all.len() == 1 { all.pop() } else { None };
        Ok(only.filter(|only| remote(only).is_none()))
    }
}

/// The repository that a codebase's remote is, as far as its address tells.
fn remote(codebase: &Codebase) -> Option<RepoName> {
    let url = codebase.repository_url.as_deref()?;
    // `https://host/owner/name.git`, `git@host:owner/name.git`; a path of this machine is none.
    let path = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?.1,
        None => url.split_once(':').filter(|(host, _)| !host.contains('/'))?.1,
    };
    RepoName::parse(path.trim_matches('/').trim_end_matches(".git"))
}
