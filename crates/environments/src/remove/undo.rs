//! Restores an environment that was removed.

use grove_git::lock::{EnvironmentHolder, EnvironmentLock};
use grove_git::removal::RemovalError;
use grove_model::{Codebase, Environment, Moment, Status, TrashPhase};
use grove_store::BeginOutcome;

use crate::environments::Environments;
use crate::error::{EnvironmentError, RemoveError};
use crate::journal::fault_point;
use crate::lease::{OWNER_LEASE_DURATION, this_process};
use crate::mirror;
use crate::provider::trash::TrashedEnvironment;
use crate::remove::RestoredEnvironment;
use crate::remove::recover::resting_status;

impl Environments {
    /// Restores an environment from the trash: path, branch, commits, every byte, except folders that tools
    /// can recreate and that have left the trash.
    pub async fn undo_removal(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<RestoredEnvironment, EnvironmentError> {
        let lock = self.lock_of(codebase, environment)?;
        self.must_have_alone(&lock, environment).await?;
        let mut environment = self.reload_environment(environment).await?;
        if environment.status == Status::Removing {
            self.recover_held(codebase, &environment).await?;
            environment = self.reload_environment(&environment).await?;
        }
        let gone = || EnvironmentError::Remove(RemoveError::NotInTrash(environment.branch.to_string()));
        let row = self.store.trash_row(environment.id).await?.ok_or_else(gone)?;
        if row.phase != TrashPhase::Kept {
            return Err(EnvironmentError::InTheMaking { work: environment.work.to_string() });
        }
        let successor = |holder: String| {
            EnvironmentError::Remove(RemoveError::Successor { work: environment.work.to_string(), holder })
        };
        if let Some(holder) = self.find_successor(codebase, &environment).await? {
            return Err(successor(holder));
        }
        let mut trashed = self.open_trashed(codebase, &row)?;
        trashed.can_return().await.map_err(RemoveError::Removal)?;
        let mut gone_folders = self.regenerable_in(&*trashed, row.removed_at, row.keep_until);
        gone_folders.retain(|folder| folder.gone);
        let rests = resting_status(&row);
        let begun = self
            .store
            .begin_undo(environment.id, rests, this_process(), Moment::now().add_duration(OWNER_LEASE_DURATION))
            .await?;
        match begun {
            BeginOutcome::Yes => {}
            BeginOutcome::Successor => return Err(successor("another environment".to_owned())),
            BeginOutcome::Moved | BeginOutcome::InUse(_) => {
                return Err(EnvironmentError::Remove(RemoveError::ChangedMeanwhile { path: environment.path }));
            }
        }
        fault_point("returning");
        if let Err(error) = trashed.return_entry() {
            return Err(self.return_to_trash(&*trashed, rests, error).await);
        }
        fault_point("entry-returned");
        if let Err(error) = self.return_rest(codebase, &environment, &mut *trashed).await {
            let error = error.with_disk_explanation(&codebase.git_common_dir);
            // Returns to the trash where that is possible; otherwise the next recovery goes forward.
            if let (true, EnvironmentError::Remove(RemoveError::Removal(_))) = (trashed.files_are_in_trash(), &error)
                && trashed.move_entry_to_trash().is_ok()
            {
                if let Err(left) = trashed.drop_branch().await {
                    tracing::warn!(environment = %environment.id, "its branch stays: {left}");
                }
                self.store.stay_in_trash(environment.id, rests).await?;
            }
            return Err(error);
        }
        Ok(RestoredEnvironment { environment: self.reload_environment(&environment).await?, gone: gone_folders })
    }

    /// Waits for a process that moves an environment of this machine; fails if commands run in the
    /// environment.
    pub(super) async fn must_have_alone(
        &self,
        lock: &EnvironmentLock,
        environment: &Environment,
    ) -> Result<(), EnvironmentError> {
        if environment.node != self.node {
            let why = format!("it is on another machine ({})", environment.node);
            return Err(EnvironmentError::Broken { path: environment.path.clone(), why });
        }
        match self.wait_for_mover(lock).await? {
            EnvironmentHolder::Us => Ok(()),
            EnvironmentHolder::Mover => Err(EnvironmentError::InTheMaking { work: environment.work.to_string() }),
            EnvironmentHolder::Commands(_) => {
                Err(EnvironmentError::Remove(RemoveError::StillRunning { branch: environment.branch.clone() }))
            }
        }
    }

    async fn return_to_trash(
        &self,
        trashed: &dyn TrashedEnvironment,
        rests: Status,
        error: RemovalError,
    ) -> EnvironmentError {
        let id = trashed.manifest().environment;
        if let Err(left) = trashed.cancel_restore() {
            tracing::error!(environment = %id, "an undo could not be taken back: {left}");
        } else if let Err(left) = self.store.stay_in_trash(id, rests).await {
            tracing::error!(environment = %id, "an undo that gave way could not be recorded: {left}");
        }
        EnvironmentError::Remove(RemoveError::Removal(error))
    }

    /// Finishes a restore from the first rename back on. Also runs after a crash.
    pub(super) async fn return_rest(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        trashed: &mut dyn TrashedEnvironment,
    ) -> Result<(), EnvironmentError> {
        let moved = RemoveError::Removal;
        trashed.return_entry().map_err(moved)?;
        // The branches are restored before the files; a commit that is made there afterwards moves them.
        if trashed.files_are_in_trash() {
            trashed.return_branches().await.map_err(moved)?;
        }
        fault_point("branches-returned");
        trashed.return_files().await.map_err(moved)?;
        fault_point("files-returned");
        // Everything is in its place again: nothing needs a pin.
        trashed.discard_records().await.map_err(moved)?;
        fault_point("forgotten");
        self.store.leave_trash(environment.id).await?;
        fault_point("undone");
        let environment = self.reload_environment(environment).await?;
        if let Err(error) = mirror::write_mirror(codebase, &environment) {
            tracing::warn!(environment = %environment.id, "its mirror could not be written: {error}");
        }
        tracing::info!(environment = %environment.id, branch = %environment.branch, "brought back");
        Ok(())
    }

    /// Returns the environment that has the work, the branch or the path now.
    async fn find_successor(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Option<String>, EnvironmentError> {
        let all = self.store.list_environments(codebase.id, false).await?;
        let has = |other: &&Environment| {
            other.id != environment.id
                && (other.work == environment.work
                    || other.branch == environment.branch
                    || other.path == environment.path)
        };
        Ok(all.iter().find(has).map(|other| format!("`{}`", other.branch)))
    }
}
