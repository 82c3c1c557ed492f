//! Who may direct the agent: a decision about values, nothing is asked here.

use std::collections::HashMap;
use std::fmt;

use crate::github::inbound::wire::User;

/// What was configured.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// If there are any, exactly these people may.
    users: Vec<ListedUser>,
    allow_all: bool,
}

/// One of `allowed_users`. A number is an id, never a login: anybody may take a login that looks like
/// somebody's id.
#[derive(Clone, Debug)]
enum ListedUser {
    Id(u64),
    /// In lower case.
    Login(String),
}

/// The accounts that listed logins mean: an account can be renamed, and its login taken by another person.
/// By login in lower case.
pub type ListedAccounts = HashMap<String, u64>;

/// What somebody may do in a repository, as GitHub says when asked; what comes with a comment
/// (`author_association`) is no proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Write or more.
    Write,
    Less,
}

impl Permission {
    /// Words that did not exist when this was written give nothing.
    pub fn parse(word: &str) -> Self {
        if matches!(word, "admin" | "maintain" | "write") { Self::Write } else { Self::Less }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Refused(Refusal),
    /// GitHub has to be asked (again): never yes.
    NotKnown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NoAccount,
    NotListed,
    /// The login is listed, and meant another account when it was seen first.
    OtherAccount,
    MayNotWrite,
}

/// Goes on behind the account that it is about.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NoAccount => "does not exist any more",
            Refusal::NotListed => "is not in adapters.github.allowed_users",
            Refusal::OtherAccount => {
                "has a login of adapters.github.allowed_users that belonged to another account before; \
                 if this account is meant, list its id instead"
            }
            Refusal::MayNotWrite => "may not write to the repository",
        })
    }
}

impl Access {
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

    /// Tells whether everybody may.
    pub fn allows_everybody(&self) -> bool {
        self.users.is_empty() && self.allow_all
    }

    /// The listed logins, in lower case.
    pub fn logins(&self) -> impl Iterator<Item = &str> {
        self.users.iter().filter_map(|user| match user {
            ListedUser::Login(login) => Some(login.as_str()),
            ListedUser::Id(_) => None,
        })
    }

    /// `permission` is `None` if it is not known. A listed login that is not among `accounts` means
    /// whoever has it: the caller keeps that account from then on.
    pub fn of(&self, user: Option<&User>, accounts: &ListedAccounts, permission: Option<Permission>) -> Verdict {
        let Some(user) = user else { return Verdict::Refused(Refusal::NoAccount) };
        if !self.users.is_empty() {
            return self.listed(user, accounts);
        }
        match (self.allow_all, permission) {
            (true, _) | (false, Some(Permission::Write)) => Verdict::Allowed,
            (false, Some(Permission::Less)) => Verdict::Refused(Refusal::MayNotWrite),
            (false, None) => Verdict::NotKnown,
        }
    }

    fn listed(&self, user: &User, accounts: &ListedAccounts) -> Verdict {
        let login = user.login.to_lowercase();
        let is_meant = |listed: &ListedUser| match listed {
            ListedUser::Id(id) => *id == user.id,
            ListedUser::Login(listed) => match accounts.get(listed) {
                Some(id) => *id == user.id,
                None => *listed == login,
            },
        };
        if self.users.iter().any(is_meant) {
            return Verdict::Allowed;
        }
        let has_listed_login = self.logins().any(|listed| listed == login);
        Verdict::Refused(if has_listed_login { Refusal::OtherAccount } else { Refusal::NotListed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: u64, login: &str) -> User {
        User { id, login: login.to_owned() }
    }

    #[test]
    fn the_list_then_everybody_then_those_who_may_write() {
        use Permission::{Less, Write};
        use Refusal::{MayNotWrite, NoAccount, NotListed};
        use Verdict::{Allowed, NotKnown, Refused};
        let (alice, accounts) = (user(1, "Alice"), ListedAccounts::new());
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
            let access = Access::new(users, allow_all);
            assert_eq!(access.of(Some(&alice), &accounts, permission), verdict, "{users:?} {allow_all} {permission:?}");
            assert_eq!(access.of(None, &accounts, permission), Refused(NoAccount), "nobody is nobody");
        }
        assert!(Access::new([""], true).allows_everybody());
        assert!(!Access::new(["x"], true).allows_everybody() && !Access::new([""], false).allows_everybody());
    }

    #[test]
    fn a_login_that_looks_like_an_id_is_none() {
        let (access, accounts) = (Access::new(["1234"], false), ListedAccounts::new());
        assert_eq!(access.of(Some(&user(1234, "alice")), &accounts, None), Verdict::Allowed);
        assert_eq!(access.of(Some(&user(99, "1234")), &accounts, None), Verdict::Refused(Refusal::NotListed));
    }

    #[test]
    fn a_listed_login_means_the_account_that_had_it() {
        let (access, accounts) =
            (Access::new(["Alice", "bob"], false), ListedAccounts::from([("alice".to_owned(), 1)]));
        let verdict = |id: u64, login: &str| access.of(Some(&user(id, login)), &accounts, Some(Permission::Write));
        assert_eq!(verdict(1, "alice"), Verdict::Allowed);
        assert_eq!(verdict(1, "alice-renamed"), Verdict::Allowed);
        assert_eq!(verdict(2, "ALICE"), Verdict::Refused(Refusal::OtherAccount));
        assert_eq!(verdict(3, "Bob"), Verdict::Allowed, "seen for the first time");
        assert_eq!(access.logins().collect::<Vec<_>>(), ["alice", "bob"]);
    }

    #[test]
    fn an_unknown_word_gives_nothing() {
        for (word, permission) in [
            ("admin", Permission::Write),
            ("maintain", Permission::Write),
            ("write", Permission::Write),
            ("triage", Permission::Less),
            ("read", Permission::Less),
            ("none", Permission::Less),
            ("", Permission::Less),
            ("superuser", Permission::Less),
        ] {
            assert_eq!(Permission::parse(word), permission, "{word}");
        }
    }
}
