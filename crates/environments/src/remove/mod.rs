//! Removing an environment so that nothing is lost, and bringing it back.
//!
//! * [`plan`]: everything that speaks against it, from git, the disk and the record.
//! * [`execute`]: the intent in the store → pins → two renames → the branch → `destroyed`.
//! * [`undo`]: the same in reverse.
//! * [`recover`]: what a crash left half way goes back before the first rename, forward after it.
//! * [`trash`]: what waits there, and when it goes.

mod execute;
mod hibernate;
pub(crate) mod plan;
mod recover;
pub mod trash;
mod undo;

use std::path::PathBuf;

use grove_git::lock::EnvironmentLock;
use grove_git::removal::{BranchFate, Fingerprint, RegenerableFolder};
use grove_model::{Answer, CommitSha, Environment, Moment, Question};
use grove_store::ConversationRef;

/// Who wants an environment removed, which decides whose use of it is a reason not to.
#[derive(Clone, Debug, Default)]
pub enum Asker {
    /// Terminal, page or API: conversations that only remember it are no reason.
    #[default]
    Person,
    /// A person in this conversation, for a clean-up: its own message is no reason.
    PersonIn(ConversationRef),
    /// From within a conversation: any other that works there is.
    Conversation(ConversationRef),
}

/// When the branch goes with its environment; its tip is pinned in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BranchWish {
    /// If everything on it is elsewhere too.
    #[default]
    ByRule,
    /// Also if it is at this commit, which is proven to be in the base.
    Merged(CommitSha),
    /// Whatever is on it.
    Drop,
}

#[derive(Clone, Debug, Default)]
pub struct RemovalWish {
    /// Overrides the reasons, and nothing else.
    pub force: bool,
    pub branch: BranchWish,
    /// What somebody saw when they decided; anything else now is a reason to ask again.
    pub seen: Option<Fingerprint>,
    pub asker: Asker,
}

/// What a removal would do.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Its folder is gone already: the record ends.
    Gone,
    /// Somebody else made it: the record ends, the folder stays.
    Release,
    Remove(Box<Removable>),
}

/// An environment that is there and ours.
#[derive(Clone, Debug)]
pub struct Removable {
    pub checks: Vec<(Question, Answer)>,
    pub(crate) entry: PathBuf,
    pub(crate) look: grove_git::Look,
    /// What becomes of the branch, with what is known of merges that git's history does not show.
    pub(crate) branch: BranchFate,
}

/// An environment that nobody else moves while this value lives.
pub(crate) struct Held {
    pub lock: EnvironmentLock,
    pub environment: Environment,
    pub removable: Box<Removable>,
}

impl Removable {
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.look.findings.fingerprint
    }

    pub fn branch(&self) -> &BranchFate {
        &self.branch
    }

    /// Folders that would leave the trash early, since their tools make them again.
    pub fn regenerable(&self) -> &[RegenerableFolder] {
        &self.look.regenerable
    }

    /// What speaks against it; with `force`, only what cannot be overridden.
    pub fn reasons(&self, force: bool) -> Vec<(Question, Answer)> {
        let against = |(question, answer): &&(Question, Answer)| {
            !answer.is_no() && (!force || (question.is_hard() && matches!(answer, Answer::Yes(_))))
        };
        self.checks.iter().filter(against).cloned().collect()
    }

    /// Those of the answers to `asked` that are not no.
    pub(crate) fn against(&self, asked: &[Question]) -> Vec<(Question, Answer)> {
        let against = |(question, answer): &&(Question, Answer)| asked.contains(question) && !answer.is_no();
        self.checks.iter().filter(against).cloned().collect()
    }
}

/// What became of it.
#[derive(Clone, Debug)]
pub enum Removed {
    Gone,
    Released(PathBuf),
    Trashed {
        /// What the plan said of the branch.
        fate: BranchFate,
        /// Whether it is still there.
        branch_kept: bool,
        undo_until: Moment,
        /// Folders that go earlier, since their tools make them again.
        regenerable: Vec<TrashedFolder>,
    },
}

/// A folder in the trash that its tool makes again, so that it leaves early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashedFolder {
    /// Below the worktree.
    pub path: PathBuf,
    pub bytes: u64,
    /// Any time after this it may go.
    pub kept_until: Moment,
    pub gone: bool,
}

/// An environment that was put to sleep.
#[derive(Clone, Debug)]
pub struct Hibernated {
    pub environment: Environment,
    /// Folders that go while it sleeps, since their tools make them again.
    pub regenerable: Vec<TrashedFolder>,
}

/// An environment that was brought back.
#[derive(Clone, Debug)]
pub struct Restored {
    pub environment: Environment,
    /// Folders that did not come back, since their tools make them again.
    pub gone: Vec<TrashedFolder>,
}
