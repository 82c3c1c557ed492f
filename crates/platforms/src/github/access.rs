//! Who may direct the agent: a decision about values, nothing is asked here.

use std::fmt;

use super::wire::User;

/// What was configured.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Logins, or ids; if there are any, exactly these people may.
    users: Vec<String>,
    allow_all: bool,
}

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
    NoAuthor,
    NotListed,
    MayNotWrite,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NoAuthor => "whoever wrote it has no account any more",
            Refusal::NotListed => "whoever wrote it is not in adapters.github.allowed_users",
            Refusal::MayNotWrite => "whoever wrote it may not write to the repository",
        })
    }
}

impl Access {
    pub fn new<T: AsRef<str>>(users: impl IntoIterator<Item = T>, allow_all: bool) -> Self {
        let users = users.into_iter().map(|user| user.as_ref().trim().trim_start_matches('@').to_lowercase());
        Self { users: users.filter(|user| !user.is_empty()).collect(), allow_all }
    }

    /// Whether a permission makes a difference; otherwise GitHub need not be asked.
    pub fn needs_permission(&self) -> bool {
        self.users.is_empty() && !self.allow_all
    }

    /// `permission` is `None` if it is not known.
    pub fn of(&self, author: Option<&User>, permission: Option<Permission>) -> Verdict {
        let Some(author) = author else { return Verdict::Refused(Refusal::NoAuthor) };
        if !self.users.is_empty() {
            let listed = self.users.iter().any(|user| is(user, author));
            return if listed { Verdict::Allowed } else { Verdict::Refused(Refusal::NotListed) };
        }
        match (self.allow_all, permission) {
            (true, _) | (false, Some(Permission::Write)) => Verdict::Allowed,
            (false, Some(Permission::Less)) => Verdict::Refused(Refusal::MayNotWrite),
            (false, None) => Verdict::NotKnown,
        }
    }
}

/// A number is an id, never a login: anybody may take a login that looks like somebody's id.
fn is(listed: &str, author: &User) -> bool {
    if listed.bytes().all(|byte| byte.is_ascii_digit()) {
        return listed == author.id.to_string();
    }
    listed == author.login.to_lowercase()
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
        use Refusal::{MayNotWrite, NoAuthor, NotListed};
        use Verdict::{Allowed, NotKnown, Refused};
        let alice = user(1, "Alice");
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
            assert_eq!(access.of(Some(&alice), permission), verdict, "{users:?} {allow_all} {permission:?}");
            assert_eq!(access.of(None, permission), Refused(NoAuthor), "nobody is nobody");
        }
        assert!(Access::new([""], false).needs_permission());
        assert!(!Access::new(["x"], false).needs_permission() && !Access::new([""], true).needs_permission());
    }

    #[test]
    fn a_login_that_looks_like_an_id_is_none() {
        let access = Access::new(["1234"], false);
        assert_eq!(access.of(Some(&user(1234, "alice")), None), Verdict::Allowed);
        assert_eq!(access.of(Some(&user(99, "1234")), None), Verdict::Refused(Refusal::NotListed));
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
