//! Reconciles the records, git's list of worktrees and the disk.
//!
//! Runs at the start of a server and from `grove doctor`. It finishes or undoes interrupted operations,
//! quarantines broken entries and rewrites missing mirrors. It deletes only what an unfinished intent's nonce
//! proves to be its own; it reports everything else. A second run changes nothing, and an error of the store
//! ends the run.

use std::fs;

use grove_git::lock::LockFiles;
use grove_git::quarantine::{broken_entries, pin_quarantined, quarantine_entry};
use grove_git::{Repository, leftovers};
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
        let common_dir = &codebase.git_common_dir;
        let failed =
            |source| EnvironmentError::Io { what: format!("{} cannot be looked at", common_dir.display()), source };
        let mut fixes = Vec::new();
        for broken in broken_entries(common_dir).map_err(failed)? {
            let aside = quarantine_entry(common_dir, &broken).map_err(failed)?;
            pin_quarantined(&Repository::from_record(self.git_client(), &codebase.default_cwd, common_dir), &aside)
                .await?;
            tracing::warn!(entry = %broken.entry.display(), "quarantined: {}", broken.why);
            let worktree = broken.worktree.map(|path| format!(" of {}", path.display())).unwrap_or_default();
            fixes.push(ReconcileFix(format!(
                "git's entry{worktree} is broken ({}) and was put aside at {}",
                broken.why,
                aside.display()
            )));
        }
        Ok(fixes)
    }

    /// Reconciles one codebase's records, entries and folders.
    pub async fn reconcile_codebase(&self, codebase: &Codebase) -> Result<ReconcileReport, EnvironmentError> {
        let mut done = ReconcileReport { fixes: self.quarantine_broken(codebase).await?, left: Vec::new() };
        let here = node_name();
        let all = self.environment_store().list_environments(codebase.id, true).await?;
        for environment in all.iter().filter(|environment| environment.node == here) {
            match self.reconcile_one(codebase, environment).await {
                Ok(fix) => done.fixes.extend(fix.map(ReconcileFix)),
                Err(error @ EnvironmentError::Store(_)) => return Err(error),
                // An environment that cannot be fixed does not stop the rest.
                Err(error) => done.left.push((environment.branch.to_string(), error.into())),
            }
        }
        self.sweep_staging(codebase, &all, &mut done.fixes)?;
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
                let now = self.environment_store().find_environment(environment.id).await?;
                let back = now.is_some_and(|now| now.status != Status::Destroyed);
                let how = if back { "it is back" } else { "it is in the trash" };
                Some(format!("the unfinished removal of `{branch}` was put right: {how}"))
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
        let common_dir = &codebase.git_common_dir;
        let failed = |source| EnvironmentError::Io { what: "files of locks cannot be deleted".to_owned(), source };
        let found = LockFiles::locked_environments(common_dir).map_err(failed)?;
        if found.is_empty() {
            return Ok(());
        }
        let kept = self.environment_store().trash_of(codebase.id).await?;
        let here = node_name();
        for id in found {
            let ended = all.iter().any(|e| e.id == id && e.status == Status::Destroyed && e.node == here);
            if ended && !kept.iter().any(|row| row.environment == id) {
                LockFiles::of_environment(common_dir, id).and_then(|locks| locks.delete_files()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Deletes staging folders of creations that have ended; each folder's name tells its creation.
    fn sweep_staging(
        &self,
        codebase: &Codebase,
        all: &[Environment],
        fixes: &mut Vec<ReconcileFix>,
    ) -> Result<(), EnvironmentError> {
        let ended: Vec<Nonce> = all.iter().filter(|e| e.status == Status::Destroyed).map(|e| e.nonce).collect();
        let staged = fs::read_dir(codebase.git_common_dir.join("grove")).into_iter().flatten().flatten();
        for entry in staged {
            let name = entry.file_name().to_string_lossy().into_owned();
            let nonce = name.strip_prefix("staging-").and_then(|nonce| nonce.parse::<Nonce>().ok());
            if nonce.is_some_and(|nonce| ended.contains(&nonce)) {
                fs::remove_dir_all(entry.path())
                    .map_err(|source| EnvironmentError::Io { what: format!("{name} cannot be taken away"), source })?;
                fixes.push(ReconcileFix(format!("{name} of a creation that ended was taken away")));
            }
        }
        for path in leftovers::sweep_leftovers(&codebase.git_common_dir).map_err(|source| EnvironmentError::Io {
            what: "leftovers of git cannot be taken away".to_owned(),
            source,
        })? {
            fixes.push(ReconcileFix(format!("{} of a call of git that ended was taken away", path.display())));
        }
        Ok(())
    }
}
