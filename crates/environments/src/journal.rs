//! The journal of a creation: the store holds each step before the next one begins.

use async_trait::async_trait;
use grove_git::worktree::{AddWorktreeError, BranchIntent, CreationJournal, CreationStep};
use grove_model::EnvironmentId;
use grove_store::{JournalLine, Store};

/// Names a step at which the process ends at once, as if it were killed there. Used to test what a crash
/// leaves behind.
const FAULT_VARIABLE: &str = "GROVE_FAULT_AT";

pub(crate) struct StoreJournal {
    pub store: Store,
    pub environment: EnvironmentId,
}

impl StoreJournal {
    /// Records a step that is not one of git's.
    pub async fn append_entry(&self, step: &str, detail: Option<&str>) -> Result<(), grove_store::StoreError> {
        self.store.record_journal_line(self.environment, step, detail).await?;
        fault_point(step);
        Ok(())
    }
}

#[async_trait]
impl CreationJournal for StoreJournal {
    async fn record_step(&self, step: CreationStep) -> Result<(), AddWorktreeError> {
        let (name, detail) = match &step {
            CreationStep::Branch(intent) => (BRANCH_STEP, serde_json::to_string(intent).ok()),
            CreationStep::Branched => ("branched", None),
            CreationStep::Staged => ("staged", None),
            CreationStep::CheckedOut => ("checked-out", None),
            CreationStep::EntryPublished => ("entry-published", None),
            CreationStep::Published => ("published", None),
            CreationStep::Verified => ("verified", None),
        };
        self.append_entry(name, detail.as_deref()).await.map_err(|error| AddWorktreeError::Journal(error.to_string()))
    }
}

const BRANCH_STEP: &str = "branch";

/// Ends this process without any clean-up if the variable names this step.
pub(crate) fn fault_point(step: &str) {
    if std::env::var_os(FAULT_VARIABLE).is_some_and(|wanted| wanted == step) {
        let us = rustix::process::getpid();
        let _ = rustix::process::kill_process(us, rustix::process::Signal::KILL);
    }
}

/// Returns what an unfinished creation was about to do to its branch.
pub(crate) fn branch_intent(journal: &[JournalLine]) -> Option<BranchIntent> {
    let line = journal.iter().rfind(|line| line.step == BRANCH_STEP)?;
    serde_json::from_str(line.detail.as_deref()?).ok()
}
