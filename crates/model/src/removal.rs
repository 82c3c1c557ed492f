//! The questions to answer before an environment is removed, and the progress of its removal.

use serde::{Deserialize, Serialize};

use crate::environment::words;

words!(
    /// One possible reason against a removal; the word is its code.
    Question, "question of a removal" {
        Changes = "uncommitted_changes",
        HiddenChanges = "hidden_changes",
        Untracked = "untracked_files",
        DetachedCommits = "detached_commits",
        InProgress = "operation_in_progress",
        Submodules = "changed_submodules",
        NestedWorktree = "nested_worktree",
        NestedRepository = "nested_repository",
        Locked = "locked",
        LiveRun = "live_run",
        Conversations = "other_conversations",
        PullRequest = "open_pull_request",
    }
);

impl Question {
    /// Tells whether even a forced removal stops here: the nested worktree would break.
    pub fn is_hard(self) -> bool {
        self == Question::NestedWorktree
    }
}

words!(
    /// The progress of a removal or an undo.
    TrashPhase, "phase of a removal" {
        /// On its way into the trash.
        Moving = "moving",
        Kept = "kept",
        /// On its way back.
        Returning = "returning",
    }
);

/// The answer to a question. An unknown answer does not count as a no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", content = "detail", rename_all = "lowercase")]
pub enum RemovalAnswer {
    No,
    /// The reason exists; contains the finding.
    Yes(String),
    /// The answer could not be found out; contains the reason.
    Unknown(String),
}

impl RemovalAnswer {
    pub fn is_no(&self) -> bool {
        *self == RemovalAnswer::No
    }

    /// Returns `Yes` with the finding, if there is one.
    pub fn from_finding(found: Option<String>) -> Self {
        found.map_or(RemovalAnswer::No, RemovalAnswer::Yes)
    }

    pub fn unknown_because(why: impl std::fmt::Display) -> Self {
        RemovalAnswer::Unknown(why.to_string())
    }
}
