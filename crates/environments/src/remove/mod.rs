//! Removes an environment so that nothing is lost, and brings it back.
//!
//! * [`plan`]: every reason against a removal, from git, the disk and the record.
//! * [`execute`]: the intent in the store → pins → two renames → the branch → `destroyed`.
//! * [`undo`]: the same steps in reverse.
//! * [`hibernate`]: a removal without an expiry, and waking.
//! * [`recover`]: an interrupted operation goes back before the first rename, forward after it.
//! * [`trash`]: the contents of the trash, and when they are deleted.

mod execute;
mod hibernate;
pub(crate) mod plan;
mod recover;
pub mod trash;
mod undo;

use std::path::PathBuf;

use grove_git::lock::EnvironmentLock;
use grove_git::removal::{BranchFate, RegenerableFolder, WorktreeFingerprint};
use grove_model::{CommitSha, Environment, Moment, Question, RemovalAnswer};
use grove_store::ConversationRef;

/// The requester of a removal, which decides whose use of the environment is a reason against it.
#[derive(Clone, Debug, Default)]
pub enum RemovalRequester {
    /// Terminal, page or API: conversations that are only bound to it are no reason.
    #[default]
    Person,
    /// A person in this conversation, for a clean-up: the conversation's own message is no reason.
    PersonIn(ConversationRef),
    /// From within a conversation: any other conversation that works there is a reason.
    Conversation(ConversationRef),
}

/// Decides when the branch is deleted with its environment; its tip is pinned in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BranchPolicy {
    /// If every commit on it is elsewhere too.
    #[default]
    ByRule,
    /// Also if it is at this commit, which is proven to be in the base.
    Merged(CommitSha),
    /// Always, whatever is on it.
    Drop,
}

#[derive(Clone, Debug, Default)]
pub struct RemoveOptions {
    /// Overrides the reasons, and nothing else.
    pub force: bool,
    pub branch: BranchPolicy,
    /// The state that the requester saw when deciding; any other state now is a reason to ask again.
    pub seen: Option<WorktreeFingerprint>,
    pub requester: RemovalRequester,
}

/// The plan of a removal.
#[derive(Clone, Debug)]
pub enum RemovalPlan {
    /// Its folder is already gone: the record ends.
    Gone,
    /// Another tool or a person made it: the record ends, the folder stays.
    Release,
    Remove(Box<RemovableEnvironment>),
}

/// An environment that exists and is ours.
#[derive(Clone, Debug)]
pub struct RemovableEnvironment {
    pub checks: Vec<(Question, RemovalAnswer)>,
    pub(crate) entry: PathBuf,
    pub(crate) check: grove_git::RemovalCheck,
    /// The fate of the branch, considering merges that git's history does not show.
    pub(crate) branch: BranchFate,
}

/// An environment that no other process moves while this value lives.
pub(crate) struct HeldEnvironment {
    pub lock: EnvironmentLock,
    pub environment: Environment,
    pub removable: Box<RemovableEnvironment>,
}

impl RemovableEnvironment {
    pub fn seen_fingerprint(&self) -> &WorktreeFingerprint {
        &self.check.findings.fingerprint
    }

    pub fn branch_fate(&self) -> &BranchFate {
        &self.branch
    }

    /// Returns the folders that would leave the trash early, since their tools can recreate them.
    pub fn regenerable_folders(&self) -> &[RegenerableFolder] {
        &self.check.regenerable
    }

    /// Returns the reasons against the removal; with `force`, only those that cannot be overridden.
    pub fn blocking_reasons(&self, force: bool) -> Vec<(Question, RemovalAnswer)> {
        let against = |(question, answer): &&(Question, RemovalAnswer)| {
            !answer.is_no() && (!force || (question.is_hard() && matches!(answer, RemovalAnswer::Yes(_))))
        };
        self.checks.iter().filter(against).cloned().collect()
    }

    /// Returns those answers to `asked` that are not no.
    pub(crate) fn blocking_answers(&self, asked: &[Question]) -> Vec<(Question, RemovalAnswer)> {
        let against = |(question, answer): &&(Question, RemovalAnswer)| asked.contains(question) && !answer.is_no();
        self.checks.iter().filter(against).cloned().collect()
    }
}

/// The outcome of a removal.
#[derive(Clone, Debug)]
pub enum RemoveOutcome {
    Gone,
    Released(PathBuf),
    Trashed {
        /// The fate of the branch according to the plan.
        fate: BranchFate,
        /// Tells whether the branch still exists.
        branch_kept: bool,
        undo_until: Moment,
        /// Folders that are deleted earlier, since their tools can recreate them.
        regenerable: Vec<TrashedFolder>,
    },
}

/// A folder in the trash that its tool can recreate, so that it leaves early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashedFolder {
    /// Relative to the worktree.
    pub path: PathBuf,
    pub bytes: u64,
    /// It may be deleted any time after this.
    pub kept_until: Moment,
    pub gone: bool,
}

/// An environment that was hibernated.
#[derive(Clone, Debug)]
pub struct HibernatedEnvironment {
    pub environment: Environment,
    /// Folders that are deleted while it hibernates, since their tools can recreate them.
    pub regenerable: Vec<TrashedFolder>,
}

/// An environment that was restored.
#[derive(Clone, Debug)]
pub struct RestoredEnvironment {
    pub environment: Environment,
    /// Folders that were not restored, since their tools can recreate them.
    pub gone: Vec<TrashedFolder>,
}
