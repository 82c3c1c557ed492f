//! Work: what somebody wants done, and the branch that it is done on.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{BranchName, BranchNameError, CommitSha, short_hash};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Issue,
    Pr,
    Review,
    Thread,
    Task,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Issue, Kind::Pr, Kind::Review, Kind::Thread, Kind::Task];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Issue => "issue",
            Kind::Pr => "pr",
            Kind::Review => "review",
            Kind::Thread => "thread",
            Kind::Task => "task",
        }
    }

    /// Kinds whose ids are the forge's numbers.
    fn is_numbered(self) -> bool {
        matches!(self, Kind::Issue | Kind::Pr | Kind::Review)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = WorkError;
    fn from_str(text: &str) -> Result<Self, WorkError> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| WorkError::UnknownKind(text.to_owned()))
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    #[error("`{0}` is not a kind of work; the kinds are issue, pr, review, thread and task")]
    UnknownKind(String),
    #[error("`{id}` cannot be the id of {article} {kind}; give its number, such as 42", article = if *kind == Kind::Issue { "an" } else { "a" })]
    NotANumber { kind: Kind, id: String },
    #[error("a {kind} needs an id that is not empty")]
    EmptyId { kind: Kind },
    #[error("the id of a {kind} may be at most 1000 bytes long and this one has {bytes}")]
    LongId { kind: Kind, bytes: usize },
    #[error("the id of a {kind} cannot contain the character NUL")]
    NulInId { kind: Kind },
    #[error(transparent)]
    Branch(#[from] BranchNameError),
}

/// Kind and id: what makes a work itself within a codebase, and what the record is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkKey {
    kind: Kind,
    id: String,
}

impl WorkKey {
    pub fn new(kind: Kind, id: &str) -> Result<Self, WorkError> {
        let id = if kind.is_numbered() {
            let digits = id.strip_prefix('#').unwrap_or(id);
            match digits.parse::<u64>() {
                Ok(number) if number > 0 && digits.bytes().all(|b| b.is_ascii_digit()) => number.to_string(),
                _ => return Err(WorkError::NotANumber { kind, id: id.escape_debug().to_string() }),
            }
        } else {
            id.to_owned()
        };
        if id.trim().is_empty() {
            return Err(WorkError::EmptyId { kind });
        }
        if id.len() > 1000 {
            return Err(WorkError::LongId { kind, bytes: id.len() });
        }
        if id.contains('\0') {
            return Err(WorkError::NulInId { kind });
        }
        Ok(Self { kind, id })
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The number of an issue, pull request or review.
    pub fn number(&self) -> Option<u64> {
        self.kind.is_numbered().then(|| self.id.parse().ok()).flatten()
    }
}

impl fmt::Display for WorkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind.is_numbered() {
            write!(f, "{} #{}", self.kind, self.id)
        } else {
            write!(f, "{} {}", self.kind, self.id)
        }
    }
}

/// Where a pull request's commits are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrHead {
    /// On a branch of this repository: work can be pushed to it.
    SameRepo { branch: BranchName, at: Option<CommitSha> },
    /// In somebody's fork (or the fork is gone): reachable only as the forge's `pull/N/head`.
    Fork { pinned: Option<CommitSha> },
    /// Neither a branch of this repository nor a fork is named; reachable as the forge's `pull/N/head`.
    NotKnown { at: Option<CommitSha> },
}

impl PrHead {
    /// The head, by what is known of it. A fork's branch is not one of this repository.
    pub fn known_by(branch: Option<&BranchName>, at: Option<&CommitSha>, is_fork: bool) -> Self {
        match (is_fork, branch) {
            (true, _) => PrHead::Fork { pinned: at.cloned() },
            (false, Some(branch)) => PrHead::SameRepo { branch: branch.clone(), at: at.cloned() },
            (false, None) => PrHead::NotKnown { at: at.cloned() },
        }
    }

    /// The branch of this repository that it is on.
    pub fn branch(&self) -> Option<&BranchName> {
        match self {
            PrHead::SameRepo { branch, .. } => Some(branch),
            PrHead::Fork { .. } | PrHead::NotKnown { .. } => None,
        }
    }

    /// The commit that it is at.
    pub fn commit(&self) -> Option<&CommitSha> {
        match self {
            PrHead::SameRepo { at, .. } | PrHead::NotKnown { at } => at.as_ref(),
            PrHead::Fork { pinned } => pinned.as_ref(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    Issue { id: WorkKey },
    PullRequest { id: WorkKey, head: PrHead },
    Review { id: WorkKey, head: PrHead },
    Thread { id: WorkKey },
    Task { id: WorkKey },
}

impl Work {
    pub fn issue(id: &str) -> Result<Self, WorkError> {
        Ok(Work::Issue { id: WorkKey::new(Kind::Issue, id)? })
    }

    pub fn pull_request(id: &str, head: PrHead) -> Result<Self, WorkError> {
        Ok(Work::PullRequest { id: WorkKey::new(Kind::Pr, id)?, head })
    }

    pub fn review(id: &str, head: PrHead) -> Result<Self, WorkError> {
        Ok(Work::Review { id: WorkKey::new(Kind::Review, id)?, head })
    }

    pub fn thread(id: &str) -> Result<Self, WorkError> {
        Ok(Work::Thread { id: WorkKey::new(Kind::Thread, id)? })
    }

    pub fn task(id: &str) -> Result<Self, WorkError> {
        Ok(Work::Task { id: WorkKey::new(Kind::Task, id)? })
    }

    /// The work of this kind and id; `head` is that of a pull request.
    pub fn of(kind: Kind, id: &str, head: PrHead) -> Result<Self, WorkError> {
        match kind {
            Kind::Issue => Self::issue(id),
            Kind::Thread => Self::thread(id),
            Kind::Task => Self::task(id),
            Kind::Review => Self::review(id, head),
            Kind::Pr => Self::pull_request(id, head),
        }
    }

    /// The head of the pull request that is worked on or reviewed.
    pub fn pull_request_head(&self) -> Option<&PrHead> {
        match self {
            Work::PullRequest { head, .. } | Work::Review { head, .. } => Some(head),
            Work::Issue { .. } | Work::Thread { .. } | Work::Task { .. } => None,
        }
    }

    /// Tells whether the pull request is known to come from a fork.
    pub fn is_from_fork(&self) -> bool {
        matches!(self.pull_request_head(), Some(PrHead::Fork { .. }))
    }

    pub fn key(&self) -> &WorkKey {
        match self {
            Work::Issue { id }
            | Work::PullRequest { id, .. }
            | Work::Review { id, .. }
            | Work::Thread { id }
            | Work::Task { id } => id,
        }
    }

    /// The branch of this work, with the configured `prefix` in front unless the branch is the
    /// pull request's own. `taken` says whether *another* work has a name already: only texts can
    /// collide (two tasks with one slug), and the later one gets a hash behind.
    pub fn branch(&self, prefix: &str, taken: impl Fn(&BranchName) -> bool) -> Result<BranchName, WorkError> {
        let id = self.key().id();
        let plain = match self {
            Work::PullRequest { head: PrHead::SameRepo { branch, .. }, .. } => return Ok(branch.clone()),
            Work::Issue { .. } => return Ok(BranchName::parse(&format!("{prefix}issue-{id}"))?),
            Work::PullRequest { .. } | Work::Review { .. } => {
                return Ok(BranchName::parse(&format!("{prefix}pr-{id}-review"))?);
            }
            Work::Thread { .. } => format!("{prefix}thread-{}", short_hash(id.as_bytes(), 8)),
            Work::Task { .. } => match slug(id) {
                empty if empty.is_empty() => format!("{prefix}task-{}", short_hash(id.as_bytes(), 8)),
                slug => format!("{prefix}task-{slug}"),
            },
        };
        let plain_name = BranchName::parse(&plain)?;
        if !taken(&plain_name) {
            return Ok(plain_name);
        }
        let mut digits = 8;
        loop {
            let candidate = BranchName::parse(&format!("{plain}-{}", short_hash(id.as_bytes(), digits)))?;
            if digits >= 64 || !taken(&candidate) {
                return Ok(candidate);
            }
            digits += 8;
        }
    }
}

/// Lower-case `[a-z0-9-]`, at most 50 characters, no dash at either end.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(50);
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn branch(work: &Work) -> String {
        work.branch("", |_| false).unwrap().to_string()
    }

    #[test]
    fn every_kind_has_its_branch() {
        let sha: CommitSha = "a".repeat(40).parse().unwrap();
        let same = PrHead::SameRepo { branch: BranchName::parse("feature/auth").unwrap(), at: None };
        assert_eq!(branch(&Work::issue("42").unwrap()), "issue-42");
        assert_eq!(branch(&Work::issue("#42").unwrap()), "issue-42");
        assert_eq!(branch(&Work::pull_request("123", same).unwrap()), "feature/auth");
        assert_eq!(
            branch(&Work::pull_request("123", PrHead::Fork { pinned: Some(sha.clone()) }).unwrap()),
            "pr-123-review"
        );
        assert_eq!(branch(&Work::review("123", PrHead::NotKnown { at: Some(sha) }).unwrap()), "pr-123-review");
        // printf 'C123:1700000000.000100' | sha256sum
        assert_eq!(branch(&Work::thread("C123:1700000000.000100").unwrap()), "thread-61a290a5");
        assert_eq!(branch(&Work::task("Fix the *login* page!").unwrap()), "task-fix-the-login-page");
    }

    #[test]
    fn what_is_known_makes_the_head() {
        let branch = BranchName::parse("feature/auth").unwrap();
        let sha: CommitSha = "a".repeat(40).parse().unwrap();
        let (at, pinned) = (Some(sha.clone()), Some(sha.clone()));
        for (name, is_fork, head) in [
            (Some(&branch), false, PrHead::SameRepo { branch: branch.clone(), at: at.clone() }),
            (Some(&branch), true, PrHead::Fork { pinned: pinned.clone() }),
            (None, true, PrHead::Fork { pinned }),
            (None, false, PrHead::NotKnown { at }),
        ] {
            assert_eq!(PrHead::known_by(name, Some(&sha), is_fork), head);
            assert_eq!(head.commit(), Some(&sha));
            let work = Work::of(Kind::Review, "7", head).unwrap();
            assert_eq!((work.is_from_fork(), work.branch("", |_| false).unwrap().as_str()), (is_fork, "pr-7-review"));
        }
    }

    #[test]
    fn a_prefix_goes_before_our_names_and_never_before_a_pull_requests_own() {
        let same = PrHead::SameRepo { branch: BranchName::parse("feature/auth").unwrap(), at: None };
        assert_eq!(Work::issue("7").unwrap().branch("grove/", |_| false).unwrap().as_str(), "grove/issue-7");
        assert_eq!(
            Work::pull_request("7", same).unwrap().branch("grove/", |_| false).unwrap().as_str(),
            "feature/auth"
        );
        assert!(Work::issue("7").unwrap().branch("-x", |_| false).is_err());
    }

    #[test]
    fn two_texts_with_one_slug_get_two_branches() {
        let first = branch(&Work::task("Fix login").unwrap());
        let second = Work::task("fix: login").unwrap().branch("", |name| name.as_str() == first).unwrap();
        assert_eq!(second.as_str(), format!("task-fix-login-{}", short_hash(b"fix: login", 8)));
    }

    #[test]
    fn ids_fit_their_kind() {
        for id in ["", "abc", "-1", "0", "+5", "4 2", "1e3", "٤٢"] {
            assert!(Work::issue(id).is_err(), "{id}");
        }
        assert!(Work::task("  ").is_err());
        assert!(Work::task(&"x".repeat(1001)).is_err());
        assert_eq!(
            Work::issue("x").unwrap_err().to_string(),
            "`x` cannot be the id of an issue; give its number, such as 42"
        );
        assert!("bug".parse::<Kind>().unwrap_err().to_string().contains("issue, pr, review, thread and task"));
    }

    proptest! {
        #[test]
        fn any_text_makes_a_harmless_task_branch(text in any::<String>()) {
            if let Ok(work) = Work::task(&text) {
                let name = work.branch("", |_| false).unwrap().to_string();
                let slug = name.strip_prefix("task-").unwrap();
                prop_assert!(!slug.is_empty() && slug.len() <= 50, "{name}");
                prop_assert!(slug.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')), "{name}");
                prop_assert!(!slug.starts_with('-') && !slug.ends_with('-') && !slug.contains("--"), "{name}");
            }
        }

        #[test]
        fn any_text_makes_a_thread_branch_of_one_shape(text in any::<String>()) {
            if let Ok(work) = Work::thread(&text) {
                let name = work.branch("", |_| false).unwrap().to_string();
                prop_assert_eq!(name.len(), "thread-".len() + 8);
            }
        }
    }
}
