//! The journal of a creation: each step is in the store before the next one begins.

use async_trait::async_trait;
use grove_git::worktree::{AddError, BranchIntent, Journal, Step};
use grove_model::EnvironmentId;
use grove_store::{JournalLine, Store};

/// Names a step at which the process ends at once, as if it had been killed there: for trying out
/// what a crash leaves behind.
const FAULT: &str = "GROVE_FAULT_AT";

pub(crate) struct StoreJournal {
    pub store: Store,
    pub environment: EnvironmentId,
}

impl StoreJournal {
    /// Records a step of ours.
    pub async fn note(&self, step: &str, detail: Option<&str>) -> Result<(), grove_store::StoreError> {
        self.store.record(self.environment, step, detail).await?;
        fault_point(step);
        Ok(())
    }
}

#[async_trait]
impl Journal for StoreJournal {
    async fn step(&self, step: Step) -> Result<(), AddError> {
        let (name, detail) = match &step {
            Step::Branch(intent) => (BRANCH, serde_json::to_string(intent).ok()),
            Step::Branched => ("branched", None),
            Step::Staged => ("staged", None),
            Step::CheckedOut => ("checked-out", None),
            Step::EntryPublished => ("entry-published", None),
            Step::Published => ("published", None),
            Step::Verified => ("verified", None),
        };
        self.note(name, detail.as_deref()).await.map_err(|error| AddError::Journal(error.to_string()))
    }
}

const BRANCH: &str = "branch";

/// Ends this process, without any clean-up, where the variable says so.
pub(crate) fn fault_point(step: &str) {
    if std::env::var_os(FAULT).is_some_and(|wanted| wanted == step) {
        let us = rustix::process::getpid();
        let _ = rustix::process::kill_process(us, rustix::process::Signal::KILL);
    }
}

/// What an unfinished creation was about to do to its branch.
pub(crate) fn branch_intent(journal: &[JournalLine]) -> Option<BranchIntent> {
    let line = journal.iter().rfind(|line| line.step == BRANCH)?;
    serde_json::from_str(line.detail.as_deref()?).ok()
}
