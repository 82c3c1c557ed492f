//! A removal or an undo that was cut short.

use grove_git::lock::Holder;
use grove_git::processes::end_calls_of;
use grove_git::removal::{Manifest, RemovalError, Trashed};
use grove_model::{Codebase, Environment, Moment, Status};
use grove_store::{Phase, TrashRow};

use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::lease::is_gone;
use crate::remove::execute::Rest;
use crate::remove::plan::lock_failed;

impl Isolation {
    /// Finishes or takes back a removal or an undo whose owner is gone; `false`: it is at work, or
    /// somebody else was quicker.
    pub(crate) async fn recover_removal(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<bool, IsolationError> {
        let lock = self.lock_of(codebase, environment)?;
        match lock.try_alone().map_err(lock_failed)? {
            Holder::Us => self.recover_held(codebase, environment).await,
            Holder::Commands(_) | Holder::Mover => Ok(false),
        }
    }

    /// The same for a caller that has the environment's lock, which proves that nobody is at work.
    pub(super) async fn recover_held(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<bool, IsolationError> {
        if environment.status != Status::Removing || environment.node != self.node {
            return Ok(false);
        }
        if let Some(owner) = environment.owner.as_ref().filter(|owner| is_gone(owner, None, Moment::now())) {
            // A git that it started may still be writing.
            end_calls_of(owner.process, owner.started).await;
        }
        let Some(row) = self.store.trash_row(environment.id).await? else {
            return Err(IsolationError::Removal(RemovalError::BadManifest("its row is missing".to_owned())));
        };
        let mut trashed = self.trashed(codebase, &row)?;
        let repo = self.repository(codebase);
        match row.phase {
            Phase::Kept => return Ok(false),
            Phase::Moving if trashed.files_are_away() => {
                return Err(IsolationError::NotMounted(environment.path.clone()));
            }
            Phase::Moving if trashed.files_are_buried() => {
                trashed.bury_entry(&repo).map_err(IsolationError::Removal)?;
                let rest = if row.sleeps { Rest::Asleep } else { Rest::Trash };
                self.bury_rest(codebase, environment, &trashed, rest).await?;
            }
            Phase::Moving => {
                trashed.abandon(&repo).await.map_err(IsolationError::Removal)?;
                self.store.leave_trash(environment.id).await?;
            }
            Phase::Returning if trashed.entry_is_buried() => {
                trashed.stay().map_err(IsolationError::Removal)?;
                self.store.stay_in_trash(environment.id, resting_status(&row)).await?;
            }
            Phase::Returning => self.return_rest(codebase, environment, &mut trashed).await?,
        }
        tracing::info!(environment = %environment.id, branch = %environment.branch, "an unfinished removal was put right");
        Ok(true)
    }

    pub(super) fn trashed(&self, codebase: &Codebase, row: &TrashRow) -> Result<Trashed, IsolationError> {
        let manifest = Manifest::parse(&row.manifest).map_err(IsolationError::Removal)?;
        Ok(Trashed::new(&self.repository(codebase), manifest))
    }
}

/// The status of an environment that waits in the trash.
pub(super) fn resting_status(row: &TrashRow) -> Status {
    if row.sleeps { Status::Hibernated } else { Status::Destroyed }
}
