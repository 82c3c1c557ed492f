//! Reconciles the records, git's list of worktrees and the disk.
//!
//! Runs at the start of a server and from `grove doctor`. It finishes or undoes interrupted operations,
//! quarantines broken entries and rewrites missing mirrors. It deletes only what an unfinished intent's nonce
//! proves to be its own; it reports everything else. A second run changes nothing, and an error of the store
//! ends the run.

use grove_model::{Codebase, Environment, Nonce, Status};

use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::lease::node_name;
use crate::problem::Problem;

/// One problem that was fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconcileFix(pub String);

/// The result of reconciling a codebase: the fixes, and each branch that could not be fixed, with the reason.
#[derive(Debug)]
pub struct ReconcileReport {
    pub fixes: Vec<ReconcileFix>,
    pub left: Vec<(String, Problem)>,
}

impl Environments {
    /// Quarantines entries that would break git for the whole repository.
    pub async fn quarantine_broken(&self, codebase: &Codebase) -> Result<Vec<ReconcileFix>, EnvironmentError> {
        let mut fixes = Vec::new();
        for entry in self.provider.quarantine_broken(codebase).await? {
            tracing::warn!(aside = %entry.aside.display(), why = entry.why, "git's entry of a worktree quarantined");
            let worktree = entry.worktree.map(|path| format!(" of {}", path.display())).unwrap_or_default();
            fixes.push(ReconcileFix(format!(
                "git's entry{worktree} is broken ({}) and was put aside at {}",
                entry.why,
                entry.aside.display()
            )));
        }
        Ok(fixes)
    }

    /// Reconciles one codebase's records, entries and folders.
    pub async fn reconcile_codebase(&self, codebase: &Codebase) -> Result<ReconcileReport, EnvironmentError> {
        let mut done = ReconcileReport { fixes: self.quarantine_broken(codebase).await?, left: Vec::new() };
        let here = node_name();
        let all = self.store.list_environments(codebase.id, true).await?;
        for environment in all.iter().filter(|environment| environment.node == here) {
            match self.reconcile_one(codebase, environment).await {
                Ok(fix) => done.fixes.extend(fix.map(ReconcileFix)),
                Err(error @ EnvironmentError::Store(_)) => return Err(error),
                // An environment that cannot be fixed does not stop the rest.
                Err(error) => done.left.push((environment.branch.to_string(), error.into())),
            }
        }
        self.sweep_leftovers(codebase, &all, &mut done.fixes)?;
        self.sweep_locks(codebase, &all).await?;
        self.sweep_readings(codebase, &mut done).await?;
        Ok(done)
    }

    async fn reconcile_one(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Option<String>, EnvironmentError> {
        let branch = &environment.branch;
        let whole = environment.status == Status::Active && environment.path.is_dir();
        Ok(match environment.status {
            Status::Creating if self.recover_environment(codebase, environment).await? => {
                Some(format!("the unfinished creation of `{branch}` was undone"))
            }
            Status::Removing if self.recover_environment(codebase, environment).await? => {
                let now = self.store.find_environment(environment.id).await?;
                let back = now.is_some_and(|now| now.status != Status::Destroyed);
                let how = if back { "it is back" } else { "it is in the trash" };
                Some(format!("the unfinished removal of `{branch}` was put right: {how}"))
            }
            Status::Initializing if self.end_interrupted_init(codebase, environment).await? => {
                Some(format!("the init script of `{branch}` was interrupted; it has to run again"))
            }
            Status::Merging if self.stop_merging(codebase, environment).await? => {
                Some(format!("`{branch}` was left merging by a crash and is active again"))
            }
            _ if whole && self.finish_recorded_creation(codebase, environment)? => {
                Some(format!("`{branch}` was left locked by a crash and is unlocked"))
            }
            _ if whole && self.mirror_again(codebase, environment)? => {
                Some(format!("the mirror of `{branch}` was missing and is written"))
            }
            _ => None,
        })
    }

    /// Deletes the lock files of environments that are gone for good: ended, and not in the trash.
    async fn sweep_locks(&self, codebase: &Codebase, all: &[Environment]) -> Result<(), EnvironmentError> {
        let failed = |source| EnvironmentError::Io { what: "files of locks cannot be deleted".to_owned(), source };
        let found = self.provider.locked_environments(codebase).map_err(failed)?;
        if found.is_empty() {
            return Ok(());
        }
        let kept = self.store.trash_of(codebase.id).await?;
        let here = node_name();
        for id in found {
            let ended = all.iter().any(|e| e.id == id && e.status == Status::Destroyed && e.node == here);
            if ended && !kept.iter().any(|row| row.environment == id) {
                self.provider.delete_locks(codebase, id).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Deletes what creations that have ended and calls of git that have ended left behind.
    fn sweep_leftovers(
        &self,
        codebase: &Codebase,
        all: &[Environment],
        fixes: &mut Vec<ReconcileFix>,
    ) -> Result<(), EnvironmentError> {
        let ended: Vec<Nonce> = all.iter().filter(|e| e.status == Status::Destroyed).map(|e| e.nonce).collect();
        let failed = |source| EnvironmentError::Io { what: "leftovers cannot be taken away".to_owned(), source };
        let swept = self.provider.sweep_leftovers(codebase, &ended).map_err(failed)?;
        fixes.extend(swept.iter().map(|name| ReconcileFix(format!("{name} of a call that ended was taken away"))));
        Ok(())
    }
}
