//! Finds the current commit of a codebase's base branch.

use grove_git::RemoteOptions;
use grove_git::base::{BaseCommit, BasePreference, FetchPolicy, choose_remote};
use grove_model::Codebase;

use crate::environments::{Environments, with_repository_settings};
use crate::error::EnvironmentError;

impl Environments {
    /// Returns the base branch. The remote is asked as configured unless `fetch` says otherwise.
    pub async fn resolve_base(
        &self,
        codebase: &Codebase,
        fetch: Option<FetchPolicy>,
    ) -> Result<BaseCommit, EnvironmentError> {
        let repo = self.open_repository(codebase);
        let settings =
            with_repository_settings(&repo, &self.settings.current(), codebase.default_branch.as_deref()).await?;
        let options = RemoteOptions { fetch_timeout: Some(settings.fetch_timeout()), ..RemoteOptions::default() };
        let repo = repo.with_remote_options(options);
        let remotes = repo.list_remotes().await?;
        let remote = choose_remote(settings.remote_name(), &remotes)?;
        let (setting, recorded) = (settings.base_branch(), codebase.default_branch.as_deref());
        let preference = BasePreference { explicit: None, setting, recorded };
        let fetch = fetch.unwrap_or_else(|| settings.fetch_policy());
        Ok(repo.find_base(&preference, remote.as_deref(), fetch, None).await?.0)
    }
}
