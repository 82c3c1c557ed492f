//! What a codebase's base branch is at this moment.

use grove_git::base::{Base, BaseWish, FetchPolicy, choose_remote};
use grove_git::{RemoteOptions, Repository};
use grove_model::Codebase;

use crate::environments::{Isolation, with_repository_settings};
use crate::error::IsolationError;

impl Isolation {
    /// The base branch, asked of the remote as it is configured unless `fetch` says otherwise.
    pub async fn base(&self, codebase: &Codebase, fetch: Option<FetchPolicy>) -> Result<Base, IsolationError> {
        let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
        let settings = with_repository_settings(&repo, &self.settings, codebase.default_branch.as_deref()).await?;
        let options = RemoteOptions { fetch_timeout: Some(settings.fetch_timeout()), ..RemoteOptions::default() };
        let repo = repo.with_remote_options(options);
        let remotes = repo.remotes().await?;
        let remote = choose_remote(settings.remote(), &remotes)?;
        let (setting, recorded) = (settings.base_branch(), codebase.default_branch.as_deref());
        let wish = BaseWish { explicit: None, setting, recorded };
        let fetch = fetch.unwrap_or_else(|| settings.fetch());
        Ok(repo.base(&wish, remote.as_deref(), fetch, None).await?.0)
    }
}
