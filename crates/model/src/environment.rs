//! Codebases and environments as the store records them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    BranchName, CodebaseId, CommitSha, EnvironmentId, Moment, Nonce, ProcessOwner, RepositoryFolders, WorkKey,
};

/// A registered repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codebase {
    pub id: CodebaseId,
    pub name: String,
    /// The remote's address, without credentials.
    pub repository_url: Option<String>,
    /// The canonical (main) checkout, never a worktree; for a bare repository its own directory.
    pub default_cwd: PathBuf,
    /// `git rev-parse --git-common-dir`: it tells two clones of one remote apart.
    pub git_common_dir: PathBuf,
    pub default_branch: Option<String>,
    pub folders: RepositoryFolders,
    /// Grovekeeper cloned it.
    pub cloned: bool,
    pub ai_assistant_type: Option<String>,
    pub created_at: Moment,
}

/// A word in the store that this version does not know: an error, never a guess.
#[derive(Debug, thiserror::Error)]
#[error("`{word}` is not a known {what}")]
pub struct UnknownWordError {
    pub what: &'static str,
    pub word: String,
}

/// An enum whose values are words in the store and in `--json`.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWordError;
            fn from_str(word: &str) -> Result<Self, $crate::UnknownWordError> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
                    .ok_or_else(|| $crate::UnknownWordError { what: $what, word: word.to_owned() })
            }
        }
    };
}
pub(crate) use words;

words!(
    /// The position of an environment in its life cycle.
    Status, "status of an environment" {
        Creating = "creating",
        Initializing = "initializing",
        Active = "active",
        Merging = "merging",
        Removing = "removing",
        Destroyed = "destroyed",
        Failed = "failed",
        Hibernated = "hibernated",
    }
);

impl Status {
    /// Tells whether the life cycle has an edge from `self` to `next`.
    pub fn may_become(self, next: Status) -> bool {
        use Status::*;
        matches!(
            (self, next),
            (Creating, Initializing | Active | Destroyed)
                | (Initializing, Active | Failed | Removing | Destroyed)
                | (Active, Initializing | Merging | Removing | Hibernated | Destroyed)
                | (Merging, Active | Removing | Failed | Destroyed)
                // Back to the earlier status, when a removal is given up or undone.
                | (Removing, Destroyed | Active | Failed | Initializing | Merging | Hibernated)
                | (Failed, Initializing | Active | Merging | Removing | Destroyed)
                | (Hibernated, Active | Removing | Destroyed)
                | (Destroyed, Removing)
        )
    }
}

words!(
    /// The state that a person sees: the status together with the findings from git and the disk.
    State, "state of an environment" {
        Failed = "failed",
        Hibernated = "hibernated",
        Broken = "broken",
        Missing = "missing",
        Creating = "creating",
        Merging = "merging",
        Dirty = "dirty",
        Merged = "merged",
        Stale = "stale",
        Fresh = "fresh",
        Active = "active",
    }
);

words!(
    /// An operation of git that was begun in a worktree and not finished.
    GitOperation, "operation of git" {
        Merge = "merge",
        Rebase = "rebase",
        CherryPick = "cherry-pick",
        Revert = "revert",
        Bisect = "bisect",
    }
);

words!(
    /// The evidence that the work of an environment is in its base.
    MergeMethod, "way of being merged" {
        Ancestor = "ancestor",
        SameTree = "same-tree",
        EmptyDiff = "empty-diff",
        MergeTree = "merge-tree",
        PatchId = "patch-id",
        Forge = "forge",
    }
);

words!(
    /// The way in which a worktree was found that Grovekeeper did not create.
    AdoptedFrom, "way of adoption" {
        Branch = "branch",
        Path = "path",
        Skill = "skill",
        Automaker = "automaker",
    }
);

words!(
    /// The progress of the init script.
    InitStatus, "status of an init script" {
        Running = "running",
        Success = "success",
        Failed = "failed",
    }
);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestInfo {
    pub number: u64,
    pub url: String,
    pub title: String,
    /// `open`, `closed`, `merged`.
    pub state: String,
    pub created_at: String,
    /// The head that the platform last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<CommitSha>,
    /// The time at which the pull request was as described here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Moment>,
}

impl PullRequestInfo {
    /// Tells whether this report adds nothing to `known`: it is older and arrived late. A merged pull request
    /// stays merged; of two pull requests of one branch the open one counts.
    pub fn is_outdated_by(&self, known: &PullRequestInfo) -> bool {
        let older = self.updated_at.zip(known.updated_at).is_some_and(|(told, known)| told < known);
        match (self.number == known.number, known.is_open(), self.is_open()) {
            (true, ..) => older || (known.is_merged() && !self.is_merged()),
            (false, true, false) => true,
            (false, false, true) => false,
            (false, ..) => older,
        }
    }

    pub fn is_open(&self) -> bool {
        self.state.eq_ignore_ascii_case("open")
    }

    pub fn is_merged(&self) -> bool {
        self.state.eq_ignore_ascii_case("merged")
    }
}

/// The init script of an environment that has one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitScript {
    pub ran: bool,
    /// `None` if it has not run yet.
    pub status: Option<InitStatus>,
    pub error: Option<String>,
}

/// The fields of a record that have no column of their own; the links are kept in a separate table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnvironmentMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopted_from: Option<AdoptedFrom>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migrated_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pr: Option<PullRequestInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_script: Option<InitScript>,
    /// The work in a few words, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// The isolated environment of one work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    pub id: EnvironmentId,
    pub codebase_id: CodebaseId,
    pub work: WorkKey,
    /// `worktree`, later `container`, `vm`, `remote`.
    pub provider: String,
    pub path: PathBuf,
    pub branch: BranchName,
    pub status: Status,
    /// The error, for `failed` and for a creation that ended `destroyed`.
    pub error: Option<String>,
    /// The base as it was requested and found: `origin/main`, `main`, a tag.
    pub base_ref: Option<String>,
    pub base_sha: Option<CommitSha>,
    pub head_sha: Option<CommitSha>,
    pub created_by_platform: Option<String>,
    pub created_by_user: Option<String>,
    pub created_at: Moment,
    pub last_activity_at: Moment,
    pub size_bytes: Option<i64>,
    /// The time of the last measurement, also if it gave no figure.
    pub size_at: Option<Moment>,
    pub metadata: EnvironmentMetadata,
    pub related_issues: Vec<u64>,
    pub related_prs: Vec<u64>,
    /// The machine that holds the directory.
    pub node: String,
    /// Proves that a half-made directory on disk belongs to this environment.
    pub nonce: Nonce,
    /// The process that creates it, while it is `creating`.
    pub owner: Option<ProcessOwner>,
    /// The time until which an owner on another machine counts as alive.
    pub lease_until: Option<Moment>,
}

impl Environment {
    pub fn init_status(&self) -> Option<InitStatus> {
        self.metadata.init_script.as_ref().and_then(|init| init.status)
    }

    /// Tells whether its init script runs, or was interrupted while it ran.
    pub fn is_initializing(&self) -> bool {
        self.status == Status::Initializing || self.init_status() == Some(InitStatus::Running)
    }

    /// Tells whether its init script has to succeed before an agent may start.
    pub fn needs_init(&self) -> bool {
        self.metadata.init_script.is_some() && self.init_status() != Some(InitStatus::Success)
    }
}

impl Environment {
    pub fn is_adopted(&self) -> bool {
        self.metadata.adopted_from.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_store() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse::<Status>().unwrap(), *status);
        }
        assert!("suspended".parse::<Status>().unwrap_err().to_string().contains("suspended"));
    }

    #[test]
    fn what_is_told_late_is_no_news() {
        let told = |number, state: &str, second: Option<i64>| PullRequestInfo {
            number,
            url: String::new(),
            title: String::new(),
            state: state.to_owned(),
            created_at: String::new(),
            head: None,
            updated_at: second.and_then(Moment::from_unix),
        };
        let known = told(1, "closed", Some(5));
        for (number, state, second, outdated) in [
            (1, "open", Some(4), true),
            (1, "open", Some(5), false),
            (1, "open", Some(6), false),
            (1, "merged", Some(4), true),
            (1, "open", None, false),
            (2, "open", Some(4), false),
            (2, "merged", Some(4), true),
            (2, "merged", Some(6), false),
        ] {
            assert_eq!(told(number, state, second).is_outdated_by(&known), outdated, "{number} {state} {second:?}");
        }
        let merged = told(1, "merged", Some(5));
        assert!(told(1, "open", Some(6)).is_outdated_by(&merged), "what is merged is never open again");
        assert!(told(1, "open", None).is_outdated_by(&merged));
        let open = told(2, "open", Some(5));
        assert!(told(1, "merged", Some(6)).is_outdated_by(&open), "the branch has another one, which is open");
        assert!(!told(1, "open", Some(4)).is_outdated_by(&told(1, "open", None)), "kept before times were");
    }

    #[test]
    fn the_life_cycle_has_no_way_back_into_creation() {
        for from in Status::ALL {
            assert!(!from.may_become(Status::Creating));
            assert!(!from.may_become(*from), "{from} to itself is not a step");
        }
        assert!(Status::Creating.may_become(Status::Active) && Status::Creating.may_become(Status::Destroyed));
        assert!(!Status::Creating.may_become(Status::Hibernated));
        assert!(Status::Failed.may_become(Status::Destroyed));
        assert!(!Status::Destroyed.may_become(Status::Active), "an undo is journaled like a removal");
    }
}
