//! Newtypes for ids, so that one kind is never used as another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an id")]
pub struct ParseIdError(pub String);

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Returns a new id; ids made later sort later (UUIDv7).
            #[allow(clippy::new_without_default, reason = "an id is made on purpose, never by default")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                Uuid::parse_str(text).map(Self).map_err(|_| ParseIdError(text.to_owned()))
            }
        }
    };
}

id!(
    /// A registered repository.
    CodebaseId
);
id!(
    /// The isolated environment of one work.
    EnvironmentId
);
id!(
    /// A conversation on a platform.
    ConversationId
);
id!(
    /// A message that a person sent.
    MessageId
);
id!(
    /// Proof that a half-made directory on disk belongs to one particular creation.
    Nonce
);

/// A full object id, SHA-1 or SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitSha(String);

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a full commit id; give all 40 (or 64) hexadecimal digits")]
pub struct ParseShaError(pub String);

impl CommitSha {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first seven digits, as people quote them.
    pub fn short_sha(&self) -> &str {
        &self.0[..7]
    }

    /// Returns the all-zero id in the same hash; `update-ref` takes it to mean "must not exist".
    pub fn zero_sha(&self) -> String {
        "0".repeat(self.0.len())
    }
}

impl FromStr for CommitSha {
    type Err = ParseShaError;
    fn from_str(text: &str) -> Result<Self, ParseShaError> {
        let hex = text.bytes().all(|b| b.is_ascii_hexdigit());
        if hex && matches!(text.len(), 40 | 64) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(ParseShaError(text.to_owned()))
        }
    }
}

impl TryFrom<String> for CommitSha {
    type Error = ParseShaError;
    fn try_from(text: String) -> Result<Self, ParseShaError> {
        text.parse()
    }
}

impl From<CommitSha> for String {
    fn from(sha: CommitSha) -> String {
        sha.0
    }
}

impl fmt::Display for CommitSha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The folders of a codebase's worktrees below the worktree base. They are chosen once, at registration, so
/// that two codebases never share a folder, whatever is registered or removed later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryFolders {
    /// `worktree.layout = "owner"`: `<owner>/<repo>`.
    pub owner: String,
    /// `worktree.layout = "project"`: `<repo>`.
    pub project: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_made_later_sort_later() {
        let ids: Vec<_> = (0..100).map(|_| EnvironmentId::new()).collect();
        assert!(ids.is_sorted());
        assert_eq!(ids[0].to_string().parse::<EnvironmentId>().unwrap(), ids[0]);
    }

    #[test]
    fn a_sha_is_whole_or_refused() {
        assert_eq!("A".repeat(40).parse::<CommitSha>().unwrap().short_sha(), "aaaaaaa");
        assert!("a".repeat(64).parse::<CommitSha>().is_ok());
        for bad in ["abc1234", "", &"g".repeat(40), &"a".repeat(41)] {
            assert!(bad.parse::<CommitSha>().is_err(), "{bad}");
        }
    }
}
