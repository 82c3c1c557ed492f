//! `owner/name`, GitHub's name of a repository.

use std::fmt;

/// The name of a repository, validated: it becomes a part of addresses and of folders.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoName {
    owner: String,
    name: String,
}

impl RepoName {
    pub fn parse(text: &str) -> Option<Self> {
        let (owner, name) = text.split_once('/')?;
        let fits = |part: &str| {
            let plain = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            plain && !part.is_empty() && part.len() <= 100 && part != "." && part != ".."
        };
        (fits(owner) && fits(name)).then(|| Self { owner: owner.to_owned(), name: name.to_owned() })
    }

    pub fn owner_name(&self) -> &str {
        &self.owner
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells whether two names mean the same repository. GitHub ignores upper and lower case.
    pub fn is_same_repo(&self, other: &RepoName) -> bool {
        self.owner.eq_ignore_ascii_case(&other.owner) && self.name.eq_ignore_ascii_case(&other.name)
    }

    /// Returns the id of the conversation of an issue or pull request.
    pub fn conversation_id(&self, number: u64) -> String {
        format!("{self}#{number}")
    }

    /// Parses the result of [`RepoName::conversation_id`].
    pub fn of_conversation(conversation: &str) -> Option<(Self, u64)> {
        let (repo, number) = conversation.rsplit_once('#')?;
        Some((Self::parse(repo)?, number.parse().ok().filter(|number| *number > 0)?))
    }
}

impl fmt::Display for RepoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["octo/shop", "Octo-1/my.shop_2", "a/.github"] {
            assert_eq!(RepoName::parse(name).unwrap().to_string(), name);
        }
        for name in ["", "octo", "octo/", "/shop", "octo/shop/x", "octo/..", "../shop", "octo/sh op", "octo/%2e", "o/ü"]
        {
            assert!(RepoName::parse(name).is_none(), "{name}");
        }
        let repo = RepoName::parse("octo/shop").unwrap();
        assert!(repo.is_same_repo(&RepoName::parse("Octo/Shop").unwrap()));
        assert_eq!(RepoName::of_conversation(&repo.conversation_id(42)), Some((repo, 42)));
        for conversation in ["octo/shop", "octo/shop#0", "octo/shop#x", "C1:2"] {
            assert_eq!(RepoName::of_conversation(conversation), None);
        }
    }
}
