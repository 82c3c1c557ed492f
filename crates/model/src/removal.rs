//! What is asked before an environment is removed.

use serde::{Deserialize, Serialize};

use crate::environment::words;

words!(
    /// One thing that would speak against a removal; the word is its code.
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
    /// Whether even a forced removal gives way: the nested worktree would break.
    pub fn is_hard(self) -> bool {
        self == Question::NestedWorktree
    }
}

/// What was found out. Not to know is not a no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", content = "detail", rename_all = "lowercase")]
pub enum Answer {
    No,
    /// With what was found.
    Yes(String),
    /// With why it could not be found out.
    Unknown(String),
}

impl Answer {
    pub fn is_no(&self) -> bool {
        *self == Answer::No
    }

    /// `Yes` with a detail where there is one.
    pub fn of(found: Option<String>) -> Self {
        found.map_or(Answer::No, Answer::Yes)
    }

    pub fn unknown(why: impl std::fmt::Display) -> Self {
        Answer::Unknown(why.to_string())
    }
}
