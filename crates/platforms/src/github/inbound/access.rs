//! Decides who may direct the agent, from values only: no request is sent here.

use std::collections::HashMap;
use std::fmt;

use crate::github::inbound::wire::GithubUser;

/// The configured access.
#[derive(Clone, Debug, Default)]
pub struct AccessPolicy {
    /// If not empty, exactly these users have access.
    users: Vec<ListedUser>,
    allow_all: bool,
}

/// One of `allowed_users`. A number is an id, never a login: any person may take a login that looks like the
/// id of another account.
#[derive(Clone, Debug)]
enum ListedUser {
    Id(u64),
    /// In lower case.
    Login(String),
}

/// The accounts of the listed logins, by login in lower case: an account can be renamed, and another person
/// can take its login.
pub type ListedAccounts = HashMap<String, u64>;

/// The permission of a user in a repository, as GitHub reports it on request; the field `author_association`
/// of a comment is no proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepoPermission {
    /// Write or more.
    Write,
    Less,
}

impl RepoPermission {
    /// Parses a permission. Words that were unknown when this was written grant nothing.
    pub fn parse(word: &str) -> Self {
        if matches!(word, "admin" | "maintain" | "write") { Self::Write } else { Self::Less }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessVerdict {
    Allowed,
    Refused(AccessRefusal),
    /// GitHub has to be asked (again): never a yes.
    NotKnown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRefusal {
    NoAccount,
    NotListed,
    /// The login is listed, but belonged to another account when it was first seen.
    OtherAccount,
    MayNotWrite,
}

/// The text follows the name of the account.
impl fmt::Display for AccessRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessRefusal::NoAccount => "does not exist any more",
            AccessRefusal::NotListed => "is not in adapters.github.allowed_users",
            AccessRefusal::OtherAccount => {
                "has a login of adapters.github.allowed_users that belonged to another account before; \
                 if this account is meant, list its id instead"
            }
            AccessRefusal::MayNotWrite => "may not write to the repository",
        })
    }
}

impl AccessPolicy {
    pub fn new<T: AsRef<str>>(users: impl IntoIterator<Item = T>, allow_all: bool) -> Self {
        let users = users.into_iter().map(|user| user.as_ref().trim().trim_start_matches('@').to_lowercase());
        let users = users.filter(|user| !user.is_empty());
        let listed = |user: String| match user.bytes().all(|byte| byte.is_ascii_digit()) {
            // No account has the id 0, nor one that is too large.
            true => ListedUser::Id(user.parse().unwrap_or_default()),
            false => ListedUser::Login(user),
        };
        Self { users: users.map(listed).collect(), allow_all }
    }

    /// Tells whether every user has access.
    pub fn allows_everybody(&self) -> bool {
        self.users.is_empty() && self.allow_all
    }

    /// Returns the listed logins, in lower case.
    pub fn listed_logins(&self) -> impl Iterator<Item = &str> {
        self.users.iter().filter_map(|user| match user {
            ListedUser::Login(login) => Some(login.as_str()),
            ListedUser::Id(_) => None,
        })
    }

    /// Decides on a user. `permission` is `None` if it is unknown. A listed login that is not among
    /// `accounts` means the account that has it now: the caller records that account.
    pub fn check_user(
        &self,
        user: Option<&GithubUser>,
        accounts: &ListedAccounts,
        permission: Option<RepoPermission>,
    ) -> AccessVerdict {
        let Some(user) = user else { return AccessVerdict::Refused(AccessRefusal::NoAccount) };
        if !self.users.is_empty() {
            return self.check_listed_user(user, accounts);
        }
        match (self.allow_all, permission) {
            (true, _) | (false, Some(RepoPermission::Write)) => AccessVerdict::Allowed,
            (false, Some(RepoPermission::Less)) => AccessVerdict::Refused(AccessRefusal::MayNotWrite),
            (false, None) => AccessVerdict::NotKnown,
        }
    }

    fn check_listed_user(&self, user: &GithubUser, accounts: &ListedAccounts) -> AccessVerdict {
        let login = user.login.to_lowercase();
        let is_meant = |listed: &ListedUser| match listed {
            ListedUser::Id(id) => *id == user.id,
            ListedUser::Login(listed) => match accounts.get(listed) {
                Some(id) => *id == user.id,
                None => *listed == login,
            },
        };
        if self.users.iter().any(is_meant) {
            return AccessVerdict::Allowed;
        }
        let has_listed_login = self.listed_logins().any(|listed| listed == login);
        AccessVerdict::Refused(if has_listed_login { AccessRefusal::OtherAccount } else { AccessRefusal::NotListed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_user(id: u64, login: &str) -> GithubUser {
        GithubUser { id, login: login.to_owned() }
    }

    #[test]
    fn the_list_then_everybody_then_those_who_may_write() {
        use AccessRefusal::{MayNotWrite, NoAccount, NotListed};
        use AccessVerdict::{Allowed, NotKnown, Refused};
        use RepoPermission::{Less, Write};
        let (alice, accounts) = (test_user(1, "Alice"), ListedAccounts::new());
        for (users, allow_all, permission, verdict) in [
            (&[][..], false, Some(Write), Allowed),
            (&[], false, Some(Less), Refused(MayNotWrite)),
            (&[], false, None, NotKnown),
            (&[], true, None, Allowed),
            (&[], true, Some(Less), Allowed),
            (&["alice"], false, Some(Less), Allowed),
            (&["@ALICE"], false, None, Allowed),
            (&["bob", "1"], false, None, Allowed),
            (&["bob"], false, Some(Write), Refused(NotListed)),
            (&["bob"], true, Some(Write), Refused(NotListed)),
            (&["11"], false, Some(Write), Refused(NotListed)),
            (&[" ", ""], false, Some(Less), Refused(MayNotWrite)),
        ] {
            let access = AccessPolicy::new(users, allow_all);
            assert_eq!(
                access.check_user(Some(&alice), &accounts, permission),
                verdict,
                "{users:?} {allow_all} {permission:?}"
            );
            assert_eq!(access.check_user(None, &accounts, permission), Refused(NoAccount), "nobody is nobody");
        }
        assert!(AccessPolicy::new([""], true).allows_everybody());
        assert!(
            !AccessPolicy::new(["x"], true).allows_everybody() && !AccessPolicy::new([""], false).allows_everybody()
        );
    }

    #[test]
    fn a_login_that_looks_like_an_id_is_none() {
        let (access, accounts) = (AccessPolicy::new(["1234"], false), ListedAccounts::new());
        assert_eq!(access.check_user(Some(&test_user(1234, "alice")), &accounts, None), AccessVerdict::Allowed);
        assert_eq!(
            access.check_user(Some(&test_user(99, "1234")), &accounts, None),
            AccessVerdict::Refused(AccessRefusal::NotListed)
        );
    }

    #[test]
    fn a_listed_login_means_the_account_that_had_it() {
        let (access, accounts) =
            (AccessPolicy::new(["Alice", "bob"], false), ListedAccounts::from([("alice".to_owned(), 1)]));
        let verdict = |id: u64, login: &str| {
            access.check_user(Some(&test_user(id, login)), &accounts, Some(RepoPermission::Write))
        };
        assert_eq!(verdict(1, "alice"), AccessVerdict::Allowed);
        assert_eq!(verdict(1, "alice-renamed"), AccessVerdict::Allowed);
        assert_eq!(verdict(2, "ALICE"), AccessVerdict::Refused(AccessRefusal::OtherAccount));
        assert_eq!(verdict(3, "Bob"), AccessVerdict::Allowed, "seen for the first time");
        assert_eq!(access.listed_logins().collect::<Vec<_>>(), ["alice", "bob"]);
    }

    #[test]
    fn an_unknown_word_gives_nothing() {
        for (word, permission) in [
            ("admin", RepoPermission::Write),
            ("maintain", RepoPermission::Write),
            ("write", RepoPermission::Write),
            ("triage", RepoPermission::Less),
            ("read", RepoPermission::Less),
            ("none", RepoPermission::Less),
            ("", RepoPermission::Less),
            ("superuser", RepoPermission::Less),
        ] {
            assert_eq!(RepoPermission::parse(word), permission, "{word}");
        }
    }
}
