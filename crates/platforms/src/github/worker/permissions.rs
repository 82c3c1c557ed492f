//! Checks whether an account may direct the agent: GitHub is asked, and its answer is cached for a minute.
//! Accounts are identified by their id: a login may belong to another person tomorrow.

use std::sync::PoisonError;
use std::time::Instant;

use crate::github::adapter::{GithubAdapter, PERMISSION_CACHE_DURATION};
use crate::github::api::{ApiError, GithubClient};
use crate::github::inbound::access::{AccessPolicy, AccessVerdict, ListedAccounts, RepoPermission};
use crate::github::inbound::classify::GITHUB_PLATFORM;
use crate::github::inbound::wire::GithubUser;
use crate::github::repo::RepoName;
use crate::github::worker::events::EventError;

impl GithubAdapter {
    /// Decides whether an account may direct the agent. If GitHub must be asked and does not answer, the
    /// result is an error, never a yes.
    pub(crate) async fn check_access(
        &self,
        github: &GithubClient,
        repo: &RepoName,
        user: Option<&GithubUser>,
    ) -> Result<AccessVerdict, EventError> {
        let access = self.access_policy();
        let accounts = self.listed_accounts(&access).await?;
        let verdict = access.check_user(user, &accounts, None);
        let Some(user) = user else { return Ok(verdict) };
        match verdict {
            AccessVerdict::NotKnown => {
                let permission = self.cached_permission(github, repo, user).await?;
                Ok(access.check_user(Some(user), &accounts, Some(permission)))
            }
            AccessVerdict::Allowed if is_listed_anew(&access, user, &accounts) => {
                self.keep_listed_account(&user.login, user.id).await?;
                // Another server may have recorded another account first.
                Ok(access.check_user(Some(user), &self.listed_accounts(&access).await?, None))
            }
            AccessVerdict::Allowed | AccessVerdict::Refused(_) => Ok(verdict),
        }
    }

    /// Tells whether an account may direct the agent, or is our own.
    pub(crate) async fn is_trusted(
        &self,
        github: &GithubClient,
        repo: &RepoName,
        user: Option<&GithubUser>,
    ) -> Result<bool, EventError> {
        let us = self.bot_identity().account;
        let is_ours = us.is_some_and(|us| user.is_some_and(|user| user.id == us.id));
        Ok(is_ours || self.check_access(github, repo, user).await? == AccessVerdict::Allowed)
    }

    async fn cached_permission(
        &self,
        github: &GithubClient,
        repo: &RepoName,
        user: &GithubUser,
    ) -> Result<RepoPermission, ApiError> {
        let key = (repo.to_string().to_lowercase(), user.id);
        let known = self.permissions.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if let Some((permission, _)) = known.filter(|(_, asked)| asked.elapsed() < PERMISSION_CACHE_DURATION) {
            return Ok(permission);
        }
        let permission = github.user_permission(repo, user).await?;
        let mut all = self.permissions.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (_, asked)| asked.elapsed() < PERMISSION_CACHE_DURATION);
        all.insert(key, (permission, Instant::now()));
        Ok(permission)
    }

    /// Returns the recorded accounts of the listed logins.
    async fn listed_accounts(&self, access: &AccessPolicy) -> Result<ListedAccounts, EventError> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let unknown: Vec<&str> = access.listed_logins().filter(|login| !accounts.contains_key(*login)).collect();
        for login in unknown {
            let Some(kept) = self.conversations.store.find_mark(GITHUB_PLATFORM, &account_mark(login)).await? else {
                continue;
            };
            let id =
                kept.parse().map_err(|_| EventError::Hopeless(format!("`{kept}` is kept as the id of {login}")))?;
            accounts.insert(login.to_owned(), id);
        }
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&accounts);
        Ok(accounts)
    }

    /// Records the account of a listed login, unless another one was recorded before.
    async fn keep_listed_account(&self, login: &str, id: u64) -> Result<(), EventError> {
        let mark = account_mark(&login.to_lowercase());
        Ok(self.conversations.store.set_first_mark(GITHUB_PLATFORM, &mark, &id.to_string()).await?)
    }

    /// Looks up the accounts of listed logins before another person can take the logins. A login that GitHub
    /// does not answer for now is looked up with its first message.
    pub(crate) async fn find_listed_accounts(&self, github: &GithubClient) -> Result<(), EventError> {
        let access = self.access_policy();
        let accounts = self.listed_accounts(&access).await?;
        for login in access.listed_logins().filter(|login| !accounts.contains_key(*login)) {
            match github.user_called(login).await? {
                Some(user) if user.login.eq_ignore_ascii_case(login) => {
                    self.keep_listed_account(login, user.id).await?
                }
                _ => tracing::warn!(login, "unknown login in adapters.github.allowed_users"),
            }
        }
        Ok(())
    }
}

fn is_listed_anew(access: &AccessPolicy, user: &GithubUser, accounts: &ListedAccounts) -> bool {
    let login = user.login.to_lowercase();
    !accounts.contains_key(&login) && access.listed_logins().any(|listed| listed == login)
}

fn account_mark(login: &str) -> String {
    format!("account of {login}")
}
