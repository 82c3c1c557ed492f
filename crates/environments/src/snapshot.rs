//! A snapshot: a commit checked out only to be read. It has no branch and no record, and is deleted
//! afterwards.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use grove_git::lock::{LockFiles, repository_lock};
use grove_git::reading::{SnapshotMark, SnapshotOutcome, SnapshotWorktree};
use grove_model::{Codebase, CommitSha, FolderName, Moment, Nonce, Status};
use jiff::SignedDuration;

use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::lease::{end_calls_of_gone, is_gone, this_process};
use crate::maintenance::reconcile::{ReconcileFix, ReconcileReport};
use crate::paths;
use crate::problem::Problem;
use crate::provider::disk::DiskFacts;
use crate::ready::{LEFTOVER_RUN_TIMEOUT, ReadySnapshot};

/// The folder of the snapshots, below GROVE_HOME.
const SNAPSHOT_FOLDER: &str = "readings";

/// The time that creating and deleting a snapshot may need in addition to the run.
const SNAPSHOT_LEASE_MARGIN: SignedDuration = SignedDuration::from_hours(1);

/// The commit that a snapshot shows.
pub struct SnapshotTarget {
    pub at: CommitSha,
    /// The branch of the environment, if it has uncommitted changes.
    pub uncommitted_on: Option<String>,
}

/// A snapshot that was not deleted.
#[derive(Debug)]
pub enum LeftoverSnapshot {
    /// Something was written there: `what`.
    Written { path: PathBuf, what: String },
    /// It could not be inspected; the next start tries again.
    Unknown { path: PathBuf, why: Problem },
}

impl Environments {
    /// Returns the commit that a conversation is at: its environment's, or the base branch's.
    pub async fn snapshot_target(
        &self,
        codebase: &Codebase,
        environment: Option<grove_model::EnvironmentId>,
    ) -> Result<SnapshotTarget, EnvironmentError> {
        let bound = match environment {
            Some(id) => self.store.find_environment(id).await?,
            None => None,
        };
        let of_codebase = |environment: &grove_model::Environment| environment.codebase_id == codebase.id;
        let Some(environment) = bound.filter(of_codebase).filter(|e| e.status != Status::Destroyed) else {
            return self.base_sight(codebase).await;
        };
        let broken = |why: String| EnvironmentError::Broken { path: environment.path.clone(), why };
        if environment.status == Status::Hibernated {
            let at = self.open_repository(codebase).commit_of(&environment.branch.full_ref()).await?;
            let at = at.ok_or_else(|| broken(format!("its branch `{}` is not there", environment.branch)))?;
            return Ok(SnapshotTarget { at, uncommitted_on: None });
        }
        match self.provider.inspect(codebase, std::slice::from_ref(&environment)).await.remove(0) {
            Ok(DiskFacts::Present(here)) => {
                let uncommitted = !here.status.is_clean();
                let at = here.status.head.ok_or_else(|| broken("nothing is committed there yet".to_owned()))?;
                Ok(SnapshotTarget { at, uncommitted_on: uncommitted.then(|| environment.branch.to_string()) })
            }
            // The next message that needs an environment gets a new one, from the base.
            Ok(DiskFacts::Missing) => self.base_sight(codebase).await,
            Ok(DiskFacts::NotMounted) => Err(EnvironmentError::NotMounted(environment.path)),
            Err(why) => Err(broken(why)),
        }
    }

    async fn base_sight(&self, codebase: &Codebase) -> Result<SnapshotTarget, EnvironmentError> {
        Ok(SnapshotTarget { at: self.resolve_base(codebase, None).await?.sha, uncommitted_on: None })
    }

    /// Checks a commit out for a run that takes at most `longest`.
    pub async fn begin_reading(
        &self,
        codebase: &Codebase,
        at: &CommitSha,
        longest: Duration,
    ) -> Result<ReadySnapshot, EnvironmentError> {
        let nonce = Nonce::new();
        let path = self.readings_folder().join(FolderName::from_text(&codebase.name).as_str()).join(nonce.to_string());
        paths::has_room(&path, &self.settings.current())?;
        let locks = self.reading_locks(nonce).map_err(locked_out)?;
        let longest = SignedDuration::try_from(longest).unwrap_or(SignedDuration::MAX);
        let until = Moment::now().add_duration(longest.saturating_add(SNAPSHOT_LEASE_MARGIN));
        let mark = SnapshotMark { nonce, at: at.clone(), until, owner: this_process().clone() };
        let made = self.provider.create_snapshot(codebase, &path, mark).await;
        let reading = made.map_err(|error| EnvironmentError::NotLaidOut(Box::new(error)))?;
        match ReadySnapshot::new(codebase, reading.clone(), locks) {
            Ok(ready) => Ok(ready),
            Err(error) => {
                self.end_reading(codebase, reading).await;
                Err(locked_out(error))
            }
        }
    }

    /// Deletes a snapshot whose run has ended, unless something was written there.
    pub async fn end_reading(&self, codebase: &Codebase, reading: SnapshotWorktree) -> Option<LeftoverSnapshot> {
        let (path, nonce) = (reading.path.clone(), reading.mark.nonce);
        let ended = self.provider.end_snapshot(codebase, reading, &self.settings.current().regenerable_names()).await;
        if let Err(error) = self.reading_locks(nonce).and_then(|locks| locks.delete_files()) {
            tracing::warn!(%nonce, "the locks of a reading could not be deleted: {error}");
        }
        match ended {
            Ok(SnapshotOutcome::Gone) => None,
            Ok(SnapshotOutcome::Kept(what)) => Some(LeftoverSnapshot::Written { path, what }),
            Err(error) => Some(LeftoverSnapshot::Unknown { path, why: EnvironmentError::from(error).into() }),
        }
    }

    /// Deletes the snapshots that killed processes left, unless something was written there.
    pub(crate) async fn sweep_readings(
        &self,
        codebase: &Codebase,
        done: &mut ReconcileReport,
    ) -> Result<(), EnvironmentError> {
        let failed = |source| EnvironmentError::Io { what: "readings cannot be looked for".to_owned(), source };
        let leftovers = || -> Result<Vec<SnapshotWorktree>, EnvironmentError> {
            let all = self.provider.list_snapshots(codebase).map_err(failed)?;
            Ok(all.into_iter().filter(|reading| self.is_left(reading)).collect())
        };
        if leftovers()?.is_empty() {
            return Ok(());
        }
        // Two sweeps at once would interfere with each other.
        let _alone = repository_lock(&codebase.git_common_dir, "readings.lock").await.map_err(failed)?;
        for reading in leftovers()? {
            end_calls_of_gone(&reading.mark.owner).await;
            let locks = self.reading_locks(reading.mark.nonce).map_err(locked_out)?;
            if let Err(source) = locks.wait_for_runs(LEFTOVER_RUN_TIMEOUT).await {
                done.left.push((reading.path.display().to_string(), locked_out(source).into()));
                continue;
            }
            match self.end_reading(codebase, reading).await {
                None => done
                    .fixes
                    .push(ReconcileFix("what a killed run had laid out for reading was taken away".to_owned())),
                Some(LeftoverSnapshot::Written { path, what }) => {
                    done.fixes.push(ReconcileFix(format!(
                        "{} was only to be read and holds {what}; it is kept",
                        path.display()
                    )));
                }
                Some(LeftoverSnapshot::Unknown { path, why }) => done.left.push((path.display().to_string(), why)),
            }
        }
        Ok(())
    }

    /// Tells whether a snapshot is in our folder, under its own name, and its owner is gone.
    fn is_left(&self, reading: &SnapshotWorktree) -> bool {
        let SnapshotWorktree { path, mark, .. } = reading;
        let name = path.file_name().and_then(|name| name.to_str()).map(str::parse::<Nonce>);
        let ours = matches!(name, Some(Ok(nonce)) if nonce == mark.nonce)
            && path.ancestors().nth(2) == Some(&self.readings_folder());
        // A snapshot of another machine may be at a path that is not visible here.
        let can_be_seen = mark.owner.node == self.node || path.exists();
        ours && can_be_seen && is_gone(&mark.owner, Some(mark.until), Moment::now())
    }

    fn readings_folder(&self) -> PathBuf {
        let settings = self.settings.current();
        let home = settings.home_path();
        home.canonicalize().unwrap_or_else(|_| home.to_owned()).join(SNAPSHOT_FOLDER)
    }

    fn reading_locks(&self, nonce: Nonce) -> io::Result<LockFiles> {
        let folder: &Path = &self.settings.current().home_path().join("locks");
        fs::create_dir_all(folder)?;
        Ok(LockFiles::in_folder(folder, &format!("reading-{nonce}")))
    }
}

fn locked_out(source: io::Error) -> EnvironmentError {
    EnvironmentError::Io { what: "what is to be read cannot be locked".to_owned(), source }
}
