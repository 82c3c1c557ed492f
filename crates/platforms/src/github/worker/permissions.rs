//! Whether an account may direct the agent: GitHub is asked, and believed for a minute. Accounts are known by
//! their id: a login may belong to somebody else tomorrow.

use std::sync::PoisonError;
use std::time::Instant;

use crate::github::adapter::{Adapter, BELIEVED};
use crate::github::api::{ApiError, Github};
use crate::github::inbound::access::{ListedAccounts, Permission, Verdict};
use crate::github::inbound::classify::GITHUB;
use crate::github::inbound::wire::User;
use crate::github::repo::RepoName;
use crate::github::worker::events::Stuck;

impl Adapter {
    /// Decides whether an account may direct the agent; where GitHub must be asked and does not answer, that
    /// is an error, never a yes.
    pub(crate) async fn verdict(
        &self,
        github: &Github,
        repo: &RepoName,
        user: Option<&User>,
    ) -> Result<Verdict, Stuck> {
        let accounts = self.listed_accounts().await?;
        let verdict = self.access.of(user, &accounts, None);
        let Some(user) = user else { return Ok(verdict) };
        match verdict {
            Verdict::NotKnown => {
                let permission = self.permission(github, repo, user).await?;
                Ok(self.access.of(Some(user), &accounts, Some(permission)))
            }
            Verdict::Allowed if self.is_listed_anew(user, &accounts) => {
                self.keep_listed_account(&user.login, user.id).await?;
                // Another server may have seen another account first.
                Ok(self.access.of(Some(user), &self.listed_accounts().await?, None))
            }
            Verdict::Allowed | Verdict::Refused(_) => Ok(verdict),
        }
    }

    /// Tells whether an account may direct the agent, or is our own.
    pub(crate) async fn is_trusted(
        &self,
        github: &Github,
        repo: &RepoName,
        user: Option<&User>,
    ) -> Result<bool, Stuck> {
        let us = self.us().account;
        let is_ours = us.is_some_and(|us| user.is_some_and(|user| user.id == us.id));
        Ok(is_ours || self.verdict(github, repo, user).await? == Verdict::Allowed)
    }

    async fn permission(&self, github: &Github, repo: &RepoName, user: &User) -> Result<Permission, ApiError> {
        let key = (repo.to_string().to_lowercase(), user.id);
        let known = self.permissions.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if let Some((permission, _)) = known.filter(|(_, asked)| asked.elapsed() < BELIEVED) {
            return Ok(permission);
        }
        let permission = github.permission(repo, user).await?;
        let mut all = self.permissions.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (_, asked)| asked.elapsed() < BELIEVED);
        all.insert(key, (permission, Instant::now()));
        Ok(permission)
    }

    fn is_listed_anew(&self, user: &User, accounts: &ListedAccounts) -> bool {
        let login = user.login.to_lowercase();
        !accounts.contains_key(&login) && self.access.logins().any(|listed| listed == login)
    }

    /// The accounts that the listed logins mean, as far as they were seen.
    async fn listed_accounts(&self) -> Result<ListedAccounts, Stuck> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let unknown: Vec<&str> = self.access.logins().filter(|login| !accounts.contains_key(*login)).collect();
        for login in unknown {
            let Some(kept) = self.talks.store.mark(GITHUB, &account_mark(login)).await? else { continue };
            let id = kept.parse().map_err(|_| Stuck::Hopeless(format!("`{kept}` is kept as the id of {login}")))?;
            accounts.insert(login.to_owned(), id);
        }
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&accounts);
        Ok(accounts)
    }

    /// Keeps that a listed login means this account, unless another one was seen with it before.
    async fn keep_listed_account(&self, login: &str, id: u64) -> Result<(), Stuck> {
        let mark = account_mark(&login.to_lowercase());
        Ok(self.talks.store.set_first_mark(GITHUB, &mark, &id.to_string()).await?)
    }

    /// Finds the accounts of listed logins before anybody else can take the logins. What GitHub does not
    /// answer now is found with the first message.
    pub(crate) async fn find_listed_accounts(&self, github: &Github) -> Result<(), Stuck> {
        let accounts = self.listed_accounts().await?;
        for login in self.access.logins().filter(|login| !accounts.contains_key(*login)) {
            match github.user_called(login).await? {
                Some(user) if user.login.eq_ignore_ascii_case(login) => {
                    self.keep_listed_account(login, user.id).await?
                }
                _ => tracing::warn!("GitHub does not know `{login}` of adapters.github.allowed_users"),
            }
        }
        Ok(())
    }
}

fn account_mark(login: &str) -> String {
    format!("account of {login}")
}
