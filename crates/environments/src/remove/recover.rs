//! Recovers a removal or an undo that was interrupted.

use grove_git::lock::EnvironmentHolder;
use grove_git::removal::{RemovalError, TrashManifest};
use grove_model::{Codebase, Environment, Moment, Status, TrashPhase};
use grove_store::TrashRow;

use crate::environments::Environments;
use crate::error::{EnvironmentError, RemoveError};
use crate::lease::{end_calls_of_gone, is_gone};
use crate::provider::trash::TrashedEnvironment;
use crate::remove::execute::TrashPurpose;
use crate::remove::plan::lock_failed;

impl Environments {
    /// Finishes or takes back a removal or an undo whose owner is gone. Returns `false` if the owner is at
    /// work, or if another process was quicker.
    pub(crate) async fn recover_removal(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<bool, EnvironmentError> {
        let lock = self.lock_of(codebase, environment)?;
        match lock.try_alone().map_err(lock_failed)? {
            EnvironmentHolder::Us => self.recover_held(codebase, environment).await,
            EnvironmentHolder::Commands(_) | EnvironmentHolder::Mover => Ok(false),
        }
    }

    /// Finishes or takes back a removal or an undo. The caller holds the environment's lock, which proves
    /// that no other process is at work.
    pub(super) async fn recover_held(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<bool, EnvironmentError> {
        if environment.status != Status::Removing || environment.node != self.node {
            return Ok(false);
        }
        if let Some(owner) = environment.owner.as_ref().filter(|owner| is_gone(owner, None, Moment::now())) {
            end_calls_of_gone(owner).await;
        }
        let Some(row) = self.store.trash_row(environment.id).await? else {
            return Err(EnvironmentError::Remove(RemoveError::Removal(RemovalError::BadManifest(
                "its row is missing".to_owned(),
            ))));
        };
        let mut trashed = self.open_trashed(codebase, &row)?;
        match row.phase {
            TrashPhase::Kept => return Ok(false),
            TrashPhase::Moving if trashed.files_are_away() => {
                return Err(EnvironmentError::NotMounted(environment.path.clone()));
            }
            TrashPhase::Moving if trashed.files_are_in_trash() => {
                trashed.move_entry_to_trash().map_err(RemoveError::Removal)?;
                let rest = if row.sleeps { TrashPurpose::Asleep } else { TrashPurpose::Trash };
                self.complete_removal(codebase, environment, &*trashed, rest).await?;
            }
            TrashPhase::Moving => {
                trashed.cancel_removal().await.map_err(RemoveError::Removal)?;
                self.store.leave_trash(environment.id).await?;
            }
            TrashPhase::Returning if trashed.entry_is_in_trash() => {
                trashed.cancel_restore().map_err(RemoveError::Removal)?;
                self.store.stay_in_trash(environment.id, resting_status(&row)).await?;
            }
            TrashPhase::Returning => self.return_rest(codebase, environment, &mut *trashed).await?,
        }
        tracing::info!(environment = %environment.id, branch = %environment.branch, "an unfinished removal was put right");
        Ok(true)
    }

    pub(super) fn open_trashed(
        &self,
        codebase: &Codebase,
        row: &TrashRow,
    ) -> Result<Box<dyn TrashedEnvironment>, EnvironmentError> {
        let manifest = TrashManifest::parse(&row.manifest).map_err(RemoveError::Removal)?;
        Ok(self.provider.trashed_environment(codebase, manifest, None))
    }
}

/// Returns the status of an environment that is in the trash.
pub(super) fn resting_status(row: &TrashRow) -> Status {
    if row.sleeps { Status::Hibernated } else { Status::Destroyed }
}
