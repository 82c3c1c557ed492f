//! The contents of the trash, and when they are deleted.

use std::time::SystemTime;

use grove_git::lock::{EnvironmentHolder, EnvironmentLock};
use grove_git::removal::TrashManifest;
use grove_model::{Codebase, Environment, EnvironmentId, Moment, TrashPhase};
use grove_store::TrashRow;
use jiff::SignedDuration;

use crate::environments::Environments;
use crate::error::{EnvironmentError, RemoveError};
use crate::inspect::find::matches_by_name;
use crate::provider::trash::{TrashedEnvironment, delete_slowly};
use crate::remove::TrashedFolder;
use crate::remove::plan::lock_failed;

/// The time for which everything in the trash stays unchanged.
const UNTOUCHED_TRASH_DURATION: SignedDuration = SignedDuration::from_hours(24);
/// The tolerated difference between the times of files and of the record.
const FILE_TIME_TOLERANCE: SignedDuration = SignedDuration::from_secs(5);

/// One environment that can be restored.
#[derive(Clone, Debug)]
pub struct TrashItem {
    pub environment: Environment,
    pub manifest: TrashManifest,
    pub removed_at: Moment,
    pub undo_until: Option<Moment>,
    pub compacted: bool,
    pub bytes: u64,
    /// Folders that their tools can recreate, and that are deleted already or will be early.
    pub regenerable: Vec<TrashedFolder>,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// The number of environments whose recreatable folders were deleted.
    pub shed: usize,
    /// The number of environments whose tracked files are now in git alone.
    pub compacted: usize,
    /// The branches of environments that are gone for good.
    pub expired: Vec<String>,
}

impl Environments {
    /// Returns the contents of the trash, the last removed first.
    pub async fn list_trash(&self, codebase: &Codebase) -> Result<Vec<TrashItem>, EnvironmentError> {
        let all = self.store.list_environments(codebase.id, true).await?;
        let mut items = Vec::new();
        for row in self.store.trash_of(codebase.id).await?.into_iter().rev() {
            let Some(environment) = all.iter().find(|environment| environment.id == row.environment) else { continue };
            if row.phase != TrashPhase::Kept || row.sleeps {
                continue;
            }
            let trashed = match self.open_trashed(codebase, &row) {
                Ok(trashed) => trashed,
                Err(error) => {
                    tracing::warn!(environment = %row.environment, "left out of the trash's list: {error}");
                    continue;
                }
            };
            items.push(TrashItem {
                environment: environment.clone(),
                removed_at: row.removed_at,
                undo_until: row.keep_until,
                compacted: row.compacted_at.is_some(),
                bytes: trashed.total_size(),
                regenerable: self.regenerable_in(&*trashed, row.removed_at, row.keep_until),
                manifest: trashed.manifest().clone(),
            });
        }
        Ok(items)
    }

    /// Deletes one item for good.
    pub async fn drop_from_trash(&self, codebase: &Codebase, item: &TrashItem) -> Result<(), EnvironmentError> {
        let lock = self.lock_of(codebase, &item.environment)?;
        self.must_have_alone(&lock, &item.environment).await?;
        let row = self.store.trash_row(item.environment.id).await?.filter(|row| row.phase == TrashPhase::Kept);
        let row =
            row.ok_or_else(|| EnvironmentError::Remove(RemoveError::NotInTrash(item.environment.branch.to_string())))?;
        self.drop_row(codebase, &row, lock).await
    }

    async fn drop_row(
        &self,
        codebase: &Codebase,
        row: &TrashRow,
        lock: EnvironmentLock,
    ) -> Result<(), EnvironmentError> {
        let trashed = self.open_trashed(codebase, row)?;
        trashed.delete_permanently().await.map_err(RemoveError::Removal)?;
        self.store.forget_trash(row.environment).await?;
        delete_locks(row.environment, lock);
        Ok(())
    }

    /// Deletes what need not be kept any longer, as of `now`. An item that cannot be inspected or is being
    /// moved is left for the next sweep.
    pub async fn sweep_trash(&self, codebase: &Codebase, now: Moment) -> Result<SweepReport, EnvironmentError> {
        let mut swept = SweepReport::default();
        let rows = self.store.trash_of(codebase.id).await?;
        if rows.is_empty() {
            return Ok(swept);
        }
        let all = self.store.list_environments(codebase.id, true).await?;
        for row in rows {
            let Some(environment) = all.iter().find(|environment| environment.id == row.environment) else { continue };
            if row.phase != TrashPhase::Kept || environment.node != self.node {
                continue;
            }
            if let Err(error) = self.sweep_one(codebase, environment, &row, now, &mut swept).await {
                tracing::warn!(environment = %row.environment, "the trash could not be swept: {error}");
            }
        }
        Ok(swept)
    }

    /// Tells whether an item has been in the trash for so long that a sweep may find work.
    pub async fn is_sweep_due(&self, codebase: &Codebase, now: Moment) -> Result<bool, EnvironmentError> {
        let soonest = self.settings.current().regenerable_keep().min(UNTOUCHED_TRASH_DURATION);
        let rows = self.store.trash_of(codebase.id).await?;
        Ok(rows.iter().any(|row| row.phase == TrashPhase::Kept && row.removed_at.add_duration(soonest) < now))
    }

    /// Returns the folders of an environment in the trash that their tools can recreate.
    pub(super) fn regenerable_in(
        &self,
        trashed: &dyn TrashedEnvironment,
        removed_at: Moment,
        undo_until: Option<Moment>,
    ) -> Vec<TrashedFolder> {
        let until = removed_at.add_duration(self.settings.current().regenerable_keep());
        let kept_until = undo_until.map_or(until, |end| end.min(until));
        let folders = trashed.manifest().regenerable.iter().map(|folder| TrashedFolder {
            path: folder.path.clone(),
            bytes: folder.bytes,
            kept_until,
            gone: trashed.is_shed(folder),
        });
        folders.collect()
    }

    /// Returns the time until which an environment that was removed at `from` is kept.
    pub(super) fn keep_until(&self, from: Moment) -> Moment {
        // A hundred years stand for "forever" and do not overflow.
        let days = self.settings.current().trash_keep_days().min(36_500).cast_signed();
        from.add_duration(SignedDuration::from_hours(24 * days))
    }

    async fn sweep_one(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        row: &TrashRow,
        now: Moment,
        swept: &mut SweepReport,
    ) -> Result<(), EnvironmentError> {
        let lock = self.lock_of(codebase, environment)?;
        if lock.try_alone().map_err(lock_failed)? != EnvironmentHolder::Us {
            return Ok(());
        }
        // Read under the lock: it may be on its way back, or gone.
        let Some(row) = self.store.trash_row(row.environment).await?.filter(|row| row.phase == TrashPhase::Kept) else {
            return Ok(());
        };
        let trashed = self.open_trashed(codebase, &row)?;
        if trashed.is_being_dropped() {
            return self.drop_row(codebase, &row, lock).await;
        }
        if !trashed.files_are_in_trash() {
            // Its disk is not mounted: its state is unknown.
            return Ok(());
        }
        let shed = if row.removed_at.add_duration(self.settings.current().regenerable_keep()) < now {
            trashed.move_out_regenerable().await.unwrap_or_else(|error| {
                tracing::warn!(environment = %row.environment, "folders that tools make again stay: {error}");
                trashed.unfinished_deletion()
            })
        } else {
            trashed.unfinished_deletion()
        };
        if row.keep_until.is_some_and(|until| until < now) {
            let written = trashed.last_written().map_err(|source| EnvironmentError::Io {
                what: format!("{} cannot be looked at", trashed.manifest().files.display()),
                source,
            })?;
            let written = moment_of(written);
            let until = self.keep_until(written);
            if written > row.removed_at.add_duration(FILE_TIME_TOLERANCE) && until > now {
                tracing::info!(environment = %row.environment, "kept on: something was written there since it was removed");
                self.store.keep_in_trash_until(row.environment, until).await?;
            } else {
                tracing::info!(environment = %row.environment, branch = %environment.branch, "its time in the trash is over");
                self.drop_row(codebase, &row, lock).await?;
                swept.expired.push(environment.branch.to_string());
                return Ok(());
            }
        } else if row.compacted_at.is_none() && row.removed_at.add_duration(UNTOUCHED_TRASH_DURATION) < now {
            trashed.compact_files().await.map_err(RemoveError::Removal)?;
            self.store.trash_is_compacted(row.environment, now).await?;
            swept.compacted += 1;
        }
        drop(lock);
        if let Some(place) = shed {
            delete_slowly(&place).await.map_err(|source| EnvironmentError::Io {
                what: format!("{} cannot be deleted", place.display()),
                source,
            })?;
            swept.shed += 1;
        }
        Ok(())
    }
}

/// Returns the item that was removed last and fits the name; without a name, the one removed last.
pub fn find_latest<'a>(name: Option<&str>, trash: &'a [TrashItem]) -> Result<&'a TrashItem, EnvironmentError> {
    match name {
        None => {
            trash.iter().max_by_key(|item| item.removed_at).ok_or(EnvironmentError::Remove(RemoveError::EmptyTrash))
        }
        Some(name) => {
            let found = matches_by_name(name, trash, |item| &item.environment);
            found
                .into_iter()
                .max_by_key(|item| item.removed_at)
                .ok_or_else(|| EnvironmentError::Remove(RemoveError::NotInTrash(name.to_owned())))
        }
    }
}

/// Deletes the lock files of an environment that is gone for good. A file that cannot be deleted is left for
/// the next reconciliation of the codebase.
pub(super) fn delete_locks(id: EnvironmentId, lock: EnvironmentLock) {
    if let Err(error) = lock.delete_files() {
        tracing::warn!(environment = %id, "the files of its locks could not be deleted: {error}");
    }
}

fn moment_of(time: SystemTime) -> Moment {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(seconds).ok().and_then(Moment::from_unix).unwrap_or_else(Moment::now)
}
