//! Names of branches, checked before any git process starts.
//!
//! The rules are those of `git check-ref-format --branch`, written out so that a refusal can say
//! which part is wrong, plus three of our own: no name that git would expand (`@`, `@{-1}`), none
//! over 240 bytes, and none that begins with a dash. A test in the git crate holds this file
//! against git itself.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A branch name that git accepts, without `refs/heads/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BranchName(String);

/// The reason why a text cannot be a branch name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BranchNameError {
    #[error("a branch needs a name, and this one is empty")]
    Empty,
    #[error("`{name}` cannot be a branch: it is {bytes} bytes long and 240 are allowed")]
    TooLong { name: String, bytes: usize },
    #[error("`{name}` cannot be a branch: git gives that name a meaning of its own")]
    Reserved { name: String },
    #[error("`{name}` cannot be a branch: a name must not begin with `-`")]
    LeadingDash { name: String },
    #[error("`{name}` cannot be a branch: it contains {what}")]
    Contains { name: String, what: String },
    #[error("`{name}` cannot be a branch: the part `{part}` {why}")]
    BadPart { name: String, part: String, why: &'static str },
}

impl BranchName {
    pub const MAX_BRANCH_BYTES: usize = 240;

    pub fn parse(name: &str) -> Result<Self, BranchNameError> {
        let shown = || shorten_for_message(name);
        if name.is_empty() {
            return Err(BranchNameError::Empty);
        }
        if name.len() > Self::MAX_BRANCH_BYTES {
            return Err(BranchNameError::TooLong { name: shown(), bytes: name.len() });
        }
        if name.starts_with('-') {
            return Err(BranchNameError::LeadingDash { name: shown() });
        }
        if name == "@" || name == "HEAD" {
            return Err(BranchNameError::Reserved { name: shown() });
        }
        let contains = |what: &str| Err(BranchNameError::Contains { name: shown(), what: what.to_owned() });
        if let Some(bad) = name.chars().find(|c| c.is_ascii_control()) {
            return contains(&format!("the control character {}", bad.escape_default()));
        }
        if let Some(bad) = name.chars().find(|c| " ~^:?*[\\".contains(*c)) {
            return contains(&if bad == ' ' { "a space".to_owned() } else { format!("`{bad}`") });
        }
        for bad in ["..", "@{", "//"] {
            if name.contains(bad) {
                return contains(&format!("`{bad}`"));
            }
        }
        if name.starts_with('/') || name.ends_with('/') {
            return contains("a `/` at its start or end");
        }
        if name.ends_with('.') {
            return contains("a `.` at its end");
        }
        for part in name.split('/') {
            let bad = |why| Err(BranchNameError::BadPart { name: shown(), part: shorten_for_message(part), why });
            if part.starts_with('.') {
                return bad("begins with a dot");
            }
            if part.ends_with(".lock") {
                return bad("ends in `.lock`");
            }
        }
        Ok(Self(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the full name: `refs/heads/…`.
    pub fn full_ref(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

/// Escapes control characters and cuts the name to a length that fits in one sentence.
fn shorten_for_message(name: &str) -> String {
    let clean: String =
        name.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect();
    if clean.chars().count() <= 60 {
        return clean;
    }
    clean.chars().take(57).chain("...".chars()).collect()
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for BranchName {
    type Error = BranchNameError;
    fn try_from(name: String) -> Result<Self, BranchNameError> {
        Self::parse(&name)
    }
}

impl From<BranchName> for String {
    fn from(name: BranchName) -> String {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_git_would_misread_are_refused_with_the_part_that_is_wrong() {
        let long = "x".repeat(300);
        let refused = [
            ("", "empty"),
            ("-evil", "begin with `-`"),
            ("--upload-pack=x", "begin with `-`"),
            ("..", "contains `..`"),
            ("a..b", "contains `..`"),
            ("x.lock", "`x.lock` ends in `.lock`"),
            ("a.lock/b", "`a.lock` ends in `.lock`"),
            ("a/.b", "`.b` begins with a dot"),
            ("@", "meaning of its own"),
            ("HEAD", "meaning of its own"),
            ("@{u}", "contains `@{`"),
            ("a\u{7}b", "control character"),
            ("a\nb", "control character"),
            ("a b", "a space"),
            ("a~1", "contains `~`"),
            ("a//b", "contains `//`"),
            ("/a", "at its start or end"),
            ("a/", "at its start or end"),
            ("a.", "`.` at its end"),
            (&long, "300 bytes"),
        ];
        for (name, why) in refused {
            let error = BranchName::parse(name).expect_err(name).to_string();
            assert!(error.contains(why), "{name:?}: {error}");
            assert!(!error.contains('\n'), "one sentence: {error}");
        }
    }

    #[test]
    fn ordinary_names_are_used_as_given() {
        for name in ["main", "feature/auth", "größe/日本", "$(id)", "it's", "a@b", "v1.0", "@x", &"y".repeat(240)] {
            assert_eq!(BranchName::parse(name).expect(name).as_str(), name);
        }
    }
}
