//! What waits in the trash, and when it goes.

use std::time::SystemTime;

use grove_git::lock::{EnvironmentLock, Holder};
use grove_git::removal::{Manifest, Trashed, compact};
use grove_model::{Codebase, Environment, EnvironmentId, Moment};
use grove_store::{Phase, TrashRow};
use jiff::SignedDuration;

use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::inspect::find::fitting;
use crate::remove::TrashedFolder;
use crate::remove::plan::lock_failed;

/// How long everything stays as it was.
const A_DAY: SignedDuration = SignedDuration::from_hours(24);
/// Times of files and of the record may differ by so much.
const SLACK: SignedDuration = SignedDuration::from_secs(5);

/// One environment that can be brought back.
#[derive(Clone, Debug)]
pub struct TrashItem {
    pub environment: Environment,
    pub manifest: Manifest,
    pub removed_at: Moment,
    pub undo_until: Option<Moment>,
    pub compacted: bool,
    pub bytes: u64,
    /// Folders that their tools make again, and that are gone or go early.
    pub regenerable: Vec<TrashedFolder>,
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Environments of which folders that tools make again were deleted.
    pub shed: usize,
    /// Environments whose tracked files wait in git alone.
    pub compacted: usize,
    /// Branches of environments that are gone for good.
    pub expired: Vec<String>,
}

impl Isolation {
    /// What is in the trash, the last removed first.
    pub async fn trash(&self, codebase: &Codebase) -> Result<Vec<TrashItem>, IsolationError> {
        let all = self.store.environments(codebase.id, true).await?;
        let mut items = Vec::new();
        for row in self.store.trash_of(codebase.id).await?.into_iter().rev() {
            let Some(environment) = all.iter().find(|environment| environment.id == row.environment) else { continue };
            if row.phase != Phase::Kept || row.sleeps {
                continue;
            }
            let trashed = match self.trashed(codebase, &row) {
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
                bytes: trashed.size(),
                regenerable: self.regenerable_in(&trashed, row.removed_at, row.keep_until),
                manifest: trashed.manifest,
            });
        }
        Ok(items)
    }

    /// Deletes one for good.
    pub async fn drop_from_trash(&self, codebase: &Codebase, item: &TrashItem) -> Result<(), IsolationError> {
        let lock = self.lock_of(codebase, &item.environment)?;
        self.must_have_alone(&lock, &item.environment).await?;
        let row = self.store.trash_row(item.environment.id).await?.filter(|row| row.phase == Phase::Kept);
        let row = row.ok_or_else(|| IsolationError::NotInTrash(item.environment.branch.to_string()))?;
        self.drop_row(codebase, &row, lock).await
    }

    async fn drop_row(&self, codebase: &Codebase, row: &TrashRow, lock: EnvironmentLock) -> Result<(), IsolationError> {
        let trashed = self.trashed(codebase, row)?;
        trashed.destroy(&self.repository(codebase)).await.map_err(IsolationError::Removal)?;
        self.store.forget_trash(row.environment).await?;
        delete_locks(row.environment, lock);
        Ok(())
    }

    /// Lets go of what need not be kept any longer, as of `now`. One that cannot be looked at or is
    /// being moved is left for the next time.
    pub async fn sweep_trash(&self, codebase: &Codebase, now: Moment) -> Result<Swept, IsolationError> {
        let mut swept = Swept::default();
        let rows = self.store.trash_of(codebase.id).await?;
        if rows.is_empty() {
            return Ok(swept);
        }
        let all = self.store.environments(codebase.id, true).await?;
        for row in rows {
            let Some(environment) = all.iter().find(|environment| environment.id == row.environment) else { continue };
            if row.phase != Phase::Kept || environment.node != self.node {
                continue;
            }
            if let Err(error) = self.sweep_one(codebase, environment, &row, now, &mut swept).await {
                tracing::warn!(environment = %row.environment, "the trash could not be swept: {error}");
            }
        }
        Ok(swept)
    }

    /// Whether something in the trash has been there for so long that a sweep may find work.
    pub async fn is_sweep_due(&self, codebase: &Codebase, now: Moment) -> Result<bool, IsolationError> {
        let soonest = self.settings.regenerable_keep().min(A_DAY);
        let rows = self.store.trash_of(codebase.id).await?;
        Ok(rows.iter().any(|row| row.phase == Phase::Kept && row.removed_at.plus(soonest) < now))
    }

    /// The folders of an environment in the trash that their tools make again.
    pub(super) fn regenerable_in(
        &self,
        trashed: &Trashed,
        removed_at: Moment,
        undo_until: Option<Moment>,
    ) -> Vec<TrashedFolder> {
        let until = removed_at.plus(self.settings.regenerable_keep());
        let kept_until = undo_until.map_or(until, |end| end.min(until));
        let folders = trashed.manifest.regenerable.iter().map(|folder| TrashedFolder {
            path: folder.path.clone(),
            bytes: folder.bytes,
            kept_until,
            gone: trashed.is_shed(folder),
        });
        folders.collect()
    }

    /// Until when something is kept that was removed at `from`.
    pub(super) fn keep_until(&self, from: Moment) -> Moment {
        // A hundred years are as good as for ever, and can be counted.
        let days = self.settings.trash_keep_days().min(36_500).cast_signed();
        from.plus(SignedDuration::from_hours(24 * days))
    }

    async fn sweep_one(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        row: &TrashRow,
        now: Moment,
        swept: &mut Swept,
    ) -> Result<(), IsolationError> {
        let lock = self.lock_of(codebase, environment)?;
        if lock.try_alone().map_err(lock_failed)? != Holder::Us {
            return Ok(());
        }
        // Under the lock it may be on its way back, or gone.
        let Some(row) = self.store.trash_row(row.environment).await?.filter(|row| row.phase == Phase::Kept) else {
            return Ok(());
        };
        let repo = self.repository(codebase);
        let trashed = self.trashed(codebase, &row)?;
        if trashed.is_being_dropped() {
            return self.drop_row(codebase, &row, lock).await;
        }
        if !trashed.files_are_buried() {
            // Its disk is away: nothing is known of it.
            return Ok(());
        }
        let shed = if row.removed_at.plus(self.settings.regenerable_keep()) < now {
            trashed.shed().await.unwrap_or_else(|error| {
                tracing::warn!(environment = %row.environment, "folders that tools make again stay: {error}");
                trashed.unfinished_deletion()
            })
        } else {
            trashed.unfinished_deletion()
        };
        if row.keep_until.is_some_and(|until| until < now) {
            let written = trashed.last_written().map_err(|source| IsolationError::Io {
                what: format!("{} cannot be looked at", trashed.manifest.files.display()),
                source,
            })?;
            let written = moment_of(written);
            let until = self.keep_until(written);
            if written > row.removed_at.plus(SLACK) && until > now {
                tracing::info!(environment = %row.environment, "kept on: something was written there since it was removed");
                self.store.keep_in_trash_until(row.environment, until).await?;
            } else {
                tracing::info!(environment = %row.environment, branch = %environment.branch, "its time in the trash is over");
                self.drop_row(codebase, &row, lock).await?;
                swept.expired.push(environment.branch.to_string());
                return Ok(());
            }
        } else if row.compacted_at.is_none() && row.removed_at.plus(A_DAY) < now {
            trashed.compact(&repo).await.map_err(IsolationError::Removal)?;
            self.store.trash_is_compacted(row.environment, now).await?;
            swept.compacted += 1;
        }
        drop(lock);
        if let Some(place) = shed {
            compact::delete_slowly(&place).await.map_err(|source| IsolationError::Io {
                what: format!("{} cannot be deleted", place.display()),
                source,
            })?;
            swept.shed += 1;
        }
        Ok(())
    }
}

/// What was removed last and fits the name, or simply what was removed last.
pub fn find_latest<'a>(name: Option<&str>, trash: &'a [TrashItem]) -> Result<&'a TrashItem, IsolationError> {
    match name {
        None => trash.iter().max_by_key(|item| item.removed_at).ok_or(IsolationError::EmptyTrash),
        Some(name) => {
            let found = fitting(name, trash, |item| &item.environment);
            found
                .into_iter()
                .max_by_key(|item| item.removed_at)
                .ok_or_else(|| IsolationError::NotInTrash(name.to_owned()))
        }
    }
}

/// Deletes the files of the locks of an environment that is gone for good. What cannot be deleted is
/// left for the next look over the codebase.
pub(super) fn delete_locks(id: EnvironmentId, lock: EnvironmentLock) {
    if let Err(error) = lock.delete_files() {
        tracing::warn!(environment = %id, "the files of its locks could not be deleted: {error}");
    }
}

fn moment_of(time: SystemTime) -> Moment {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(seconds).ok().and_then(Moment::from_unix).unwrap_or_else(Moment::now)
}
