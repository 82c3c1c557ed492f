//! Work that a person requests, and the branch on which it is done.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{BranchName, BranchNameError, CommitSha, short_hash};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkKind {
    Issue,
    Pr,
    Review,
    Thread,
    Task,
}

impl WorkKind {
    pub const ALL: [WorkKind; 5] = [WorkKind::Issue, WorkKind::Pr, WorkKind::Review, WorkKind::Thread, WorkKind::Task];

    pub fn as_str(self) -> &'static str {
        match self {
            WorkKind::Issue => "issue",
            WorkKind::Pr => "pr",
            WorkKind::Review => "review",
            WorkKind::Thread => "thread",
            WorkKind::Task => "task",
        }
    }

    /// Tells whether the ids of this kind are the forge's numbers.
    fn is_numbered(self) -> bool {
        matches!(self, WorkKind::Issue | WorkKind::Pr | WorkKind::Review)
    }
}

impl fmt::Display for WorkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for WorkKind {
    type Err = WorkError;
    fn from_str(text: &str) -> Result<Self, WorkError> {
        WorkKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| WorkError::UnknownKind(text.to_owned()))
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    #[error("`{0}` is not a kind of work; the kinds are issue, pr, review, thread and task")]
    UnknownKind(String),
    #[error("`{id}` cannot be the id of {article} {kind}; give its number, such as 42", article = if *kind == WorkKind::Issue { "an" } else { "a" })]
    NotANumber { kind: WorkKind, id: String },
    #[error("a {kind} needs an id that is not empty")]
    EmptyId { kind: WorkKind },
    #[error("the id of a {kind} may be at most 1000 bytes long and this one has {bytes}")]
    LongId { kind: WorkKind, bytes: usize },
    #[error("the id of a {kind} cannot contain the character NUL")]
    NulInId { kind: WorkKind },
    #[error(transparent)]
    Branch(#[from] BranchNameError),
}

/// Kind and id: they identify a work within a codebase, and the record is found by them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkKey {
    kind: WorkKind,
    id: String,
}

impl WorkKey {
    pub fn new(kind: WorkKind, id: &str) -> Result<Self, WorkError> {
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

    pub fn work_kind(&self) -> WorkKind {
        self.kind
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the number of an issue, pull request or review.
    pub fn forge_number(&self) -> Option<u64> {
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

/// The location of a pull request's commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullRequestHead {
    /// On a branch of this repository: commits can be pushed to it.
    SameRepo { branch: BranchName, at: Option<CommitSha> },
    /// In a fork (or the fork is gone): reachable only as the forge's `pull/N/head`.
    Fork { pinned: Option<CommitSha> },
    /// Neither a branch of this repository nor a fork is named; reachable as the forge's `pull/N/head`.
    NotKnown { at: Option<CommitSha> },
}

impl PullRequestHead {
    /// Returns the head that the known facts describe. A fork's branch is not a branch of this repository.
    pub fn known_by(branch: Option<&BranchName>, at: Option<&CommitSha>, is_fork: bool) -> Self {
        match (is_fork, branch) {
            (true, _) => PullRequestHead::Fork { pinned: at.cloned() },
            (false, Some(branch)) => PullRequestHead::SameRepo { branch: branch.clone(), at: at.cloned() },
            (false, None) => PullRequestHead::NotKnown { at: at.cloned() },
        }
    }

    /// Returns the branch of this repository that contains the head.
    pub fn branch_name(&self) -> Option<&BranchName> {
        match self {
            PullRequestHead::SameRepo { branch, .. } => Some(branch),
            PullRequestHead::Fork { .. } | PullRequestHead::NotKnown { .. } => None,
        }
    }

    /// Returns the commit of the head, if it is known.
    pub fn head_commit(&self) -> Option<&CommitSha> {
        match self {
            PullRequestHead::SameRepo { at, .. } | PullRequestHead::NotKnown { at } => at.as_ref(),
            PullRequestHead::Fork { pinned } => pinned.as_ref(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    Issue { id: WorkKey },
    PullRequest { id: WorkKey, head: PullRequestHead },
    Review { id: WorkKey, head: PullRequestHead },
    Thread { id: WorkKey },
    Task { id: WorkKey },
}

impl Work {
    pub fn for_issue(id: &str) -> Result<Self, WorkError> {
        Ok(Work::Issue { id: WorkKey::new(WorkKind::Issue, id)? })
    }

    pub fn pull_request(id: &str, head: PullRequestHead) -> Result<Self, WorkError> {
        Ok(Work::PullRequest { id: WorkKey::new(WorkKind::Pr, id)?, head })
    }

    pub fn for_review(id: &str, head: PullRequestHead) -> Result<Self, WorkError> {
        Ok(Work::Review { id: WorkKey::new(WorkKind::Review, id)?, head })
    }

    pub fn for_thread(id: &str) -> Result<Self, WorkError> {
        Ok(Work::Thread { id: WorkKey::new(WorkKind::Thread, id)? })
    }

    pub fn for_task(id: &str) -> Result<Self, WorkError> {
        Ok(Work::Task { id: WorkKey::new(WorkKind::Task, id)? })
    }

    /// Returns the work of this kind and id; `head` is the head of a pull request.
    pub fn from_kind(kind: WorkKind, id: &str, head: PullRequestHead) -> Result<Self, WorkError> {
        match kind {
            WorkKind::Issue => Self::for_issue(id),
            WorkKind::Thread => Self::for_thread(id),
            WorkKind::Task => Self::for_task(id),
            WorkKind::Review => Self::for_review(id, head),
            WorkKind::Pr => Self::pull_request(id, head),
        }
    }

    /// Returns the head of the pull request that is worked on or reviewed.
    pub fn pull_request_head(&self) -> Option<&PullRequestHead> {
        match self {
            Work::PullRequest { head, .. } | Work::Review { head, .. } => Some(head),
            Work::Issue { .. } | Work::Thread { .. } | Work::Task { .. } => None,
        }
    }

    /// Tells whether the pull request is known to come from a fork.
    pub fn is_from_fork(&self) -> bool {
        matches!(self.pull_request_head(), Some(PullRequestHead::Fork { .. }))
    }

    pub fn work_key(&self) -> &WorkKey {
        match self {
            Work::Issue { id }
            | Work::PullRequest { id, .. }
            | Work::Review { id, .. }
            | Work::Thread { id }
            | Work::Task { id } => id,
        }
    }

    /// Returns the branch of this work, with the configured `prefix` in front unless the branch is the pull
    /// request's own. `taken` tells whether *another* work already has a name: only texts can collide (two
    /// tasks with one slug), and the later one gets a hash at its end.
    pub fn choose_branch_name(
        &self,
        prefix: &str,
        taken: impl Fn(&BranchName) -> bool,
    ) -> Result<BranchName, WorkError> {
        let id = self.work_key().id();
        let plain = match self {
            Work::PullRequest { head: PullRequestHead::SameRepo { branch, .. }, .. } => return Ok(branch.clone()),
            Work::Issue { .. } => return Ok(BranchName::parse(&format!("{prefix}issue-{id}"))?),
            Work::PullRequest { .. } | Work::Review { .. } => {
                return Ok(BranchName::parse(&format!("{prefix}pr-{id}-review"))?);
            }
            Work::Thread { .. } => format!("{prefix}thread-{}", short_hash(id.as_bytes(), 8)),
            Work::Task { .. } => match slug_from_text(id) {
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

/// Returns a slug: lower-case `[a-z0-9-]`, at most 50 characters, no dash at either end.
fn slug_from_text(text: &str) -> String {
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

    fn branch_text(work: &Work) -> String {
        work.choose_branch_name("", |_| false).unwrap().to_string()
    }

    #[test]
    fn every_kind_has_its_branch() {
        let sha: CommitSha = "a".repeat(40).parse().unwrap();
        let same = PullRequestHead::SameRepo { branch: BranchName::parse("feature/auth").unwrap(), at: None };
        assert_eq!(branch_text(&Work::for_issue("42").unwrap()), "issue-42");
        assert_eq!(branch_text(&Work::for_issue("#42").unwrap()), "issue-42");
        assert_eq!(branch_text(&Work::pull_request("123", same).unwrap()), "feature/auth");
        assert_eq!(
            branch_text(&Work::pull_request("123", PullRequestHead::Fork { pinned: Some(sha.clone()) }).unwrap()),
            "pr-123-review"
        );
        assert_eq!(
            branch_text(&Work::for_review("123", PullRequestHead::NotKnown { at: Some(sha) }).unwrap()),
            "pr-123-review"
        );
        // printf 'C123:1700000000.000100' | sha256sum
        assert_eq!(branch_text(&Work::for_thread("C123:1700000000.000100").unwrap()), "thread-61a290a5");
        assert_eq!(branch_text(&Work::for_task("Fix the *login* page!").unwrap()), "task-fix-the-login-page");
    }

    #[test]
    fn what_is_known_makes_the_head() {
        let branch = BranchName::parse("feature/auth").unwrap();
        let sha: CommitSha = "a".repeat(40).parse().unwrap();
        let (at, pinned) = (Some(sha.clone()), Some(sha.clone()));
        for (name, is_fork, head) in [
            (Some(&branch), false, PullRequestHead::SameRepo { branch: branch.clone(), at: at.clone() }),
            (Some(&branch), true, PullRequestHead::Fork { pinned: pinned.clone() }),
            (None, true, PullRequestHead::Fork { pinned }),
            (None, false, PullRequestHead::NotKnown { at }),
        ] {
            assert_eq!(PullRequestHead::known_by(name, Some(&sha), is_fork), head);
            assert_eq!(head.head_commit(), Some(&sha));
            let work = Work::from_kind(WorkKind::Review, "7", head).unwrap();
            assert_eq!(
                (work.is_from_fork(), work.choose_branch_name("", |_| false).unwrap().as_str()),
                (is_fork, "pr-7-review")
            );
        }
    }

    #[test]
    fn a_prefix_goes_before_our_names_and_never_before_a_pull_requests_own() {
        let same = PullRequestHead::SameRepo { branch: BranchName::parse("feature/auth").unwrap(), at: None };
        assert_eq!(
            Work::for_issue("7").unwrap().choose_branch_name("grove/", |_| false).unwrap().as_str(),
            "grove/issue-7"
        );
        assert_eq!(
            Work::pull_request("7", same).unwrap().choose_branch_name("grove/", |_| false).unwrap().as_str(),
            "feature/auth"
        );
        assert!(Work::for_issue("7").unwrap().choose_branch_name("-x", |_| false).is_err());
    }

    #[test]
    fn two_texts_with_one_slug_get_two_branches() {
        let first = branch_text(&Work::for_task("Fix login").unwrap());
        let second =
            Work::for_task("fix: login").unwrap().choose_branch_name("", |name| name.as_str() == first).unwrap();
        assert_eq!(second.as_str(), format!("task-fix-login-{}", short_hash(b"fix: login", 8)));
    }

    #[test]
    fn ids_fit_their_kind() {
        for id in ["", "abc", "-1", "0", "+5", "4 2", "1e3", "٤٢"] {
            assert!(Work::for_issue(id).is_err(), "{id}");
        }
        assert!(Work::for_task("  ").is_err());
        assert!(Work::for_task(&"x".repeat(1001)).is_err());
        assert_eq!(
            Work::for_issue("x").unwrap_err().to_string(),
            "`x` cannot be the id of an issue; give its number, such as 42"
        );
        assert!("bug".parse::<WorkKind>().unwrap_err().to_string().contains("issue, pr, review, thread and task"));
    }

    proptest! {
        #[test]
        fn any_text_makes_a_harmless_task_branch(text in any::<String>()) {
            if let Ok(work) = Work::for_task(&text) {
                let name = work.choose_branch_name("", |_| false).unwrap().to_string();
                let slug = name.strip_prefix("task-").unwrap();
                prop_assert!(!slug.is_empty() && slug.len() <= 50, "{name}");
                prop_assert!(slug.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')), "{name}");
                prop_assert!(!slug.starts_with('-') && !slug.ends_with('-') && !slug.contains("--"), "{name}");
            }
        }

        #[test]
        fn any_text_makes_a_thread_branch_of_one_shape(text in any::<String>()) {
            if let Ok(work) = Work::for_thread(&text) {
                let name = work.choose_branch_name("", |_| false).unwrap().to_string();
                prop_assert_eq!(name.len(), "thread-".len() + 8);
            }
        }
    }
}
