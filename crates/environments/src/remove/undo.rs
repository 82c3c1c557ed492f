//! Bringing back what was removed.

use grove_git::lock::{EnvironmentLock, Holder};
use grove_git::removal::{RemovalError, Trashed};
use grove_model::{Codebase, Environment, Moment, Status};
use grove_store::{Begun, Phase};

use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::journal::fault_point;
use crate::lease::{LEASE, this_process};
use crate::mirror;
use crate::remove::Restored;
use crate::remove::recover::resting_status;

impl Isolation {
    /// Brings an environment back from the trash: path, branch, commits, every byte, but for folders that
    /// tools make again and that have left the trash.
    pub async fn undo(&self, codebase: &Codebase, environment: &Environment) -> Result<Restored, IsolationError> {
        let lock = self.lock_of(codebase, environment)?;
        self.must_have_alone(&lock, environment).await?;
        let mut environment = self.reread(environment).await?;
        if environment.status == Status::Removing {
            self.recover_held(codebase, &environment).await?;
            environment = self.reread(&environment).await?;
        }
        let gone = || IsolationError::NotInTrash(environment.branch.to_string());
        let row = self.store.trash_row(environment.id).await?.ok_or_else(gone)?;
        if row.phase != Phase::Kept {
            return Err(IsolationError::InTheMaking { work: environment.work.to_string() });
        }
        let successor = |holder: String| IsolationError::Successor { work: environment.work.to_string(), holder };
        if let Some(holder) = self.successor(codebase, &environment).await? {
            return Err(successor(holder));
        }
        let repo = self.repository(codebase);
        let mut trashed = self.trashed(codebase, &row)?;
        trashed.can_return(&repo).await.map_err(IsolationError::Removal)?;
        let mut gone_folders = self.regenerable_in(&trashed, row.removed_at, row.keep_until);
        gone_folders.retain(|folder| folder.gone);
        let rests = resting_status(&row);
        let begun = self.store.begin_undo(environment.id, rests, this_process(), Moment::now().plus(LEASE)).await?;
        match begun {
            Begun::Yes => {}
            Begun::Successor => return Err(successor("another environment".to_owned())),
            Begun::Moved | Begun::InUse(_) => {
                return Err(IsolationError::ChangedMeanwhile { path: environment.path });
            }
        }
        fault_point("returning");
        if let Err(error) = trashed.return_entry(&repo) {
            return Err(self.stay(&trashed, rests, error).await);
        }
        fault_point("entry-returned");
        if let Err(error) = self.return_rest(codebase, &environment, &mut trashed).await {
            let error = error.explained(&repo.common_dir);
            // Back into the trash where that can be done; otherwise the next look goes forward.
            if let (true, IsolationError::Removal(_)) = (trashed.files_are_buried(), &error)
                && trashed.bury_entry(&repo).is_ok()
            {
                if let Err(left) = trashed.drop_branch(&repo).await {
                    tracing::warn!(environment = %environment.id, "its branch stays: {left}");
                }
                self.store.stay_in_trash(environment.id, rests).await?;
            }
            return Err(error);
        }
        Ok(Restored { environment: self.reread(&environment).await?, gone: gone_folders })
    }

    /// Waits for whoever moves an environment of this machine; commands that run in it keep it.
    pub(super) async fn must_have_alone(
        &self,
        lock: &EnvironmentLock,
        environment: &Environment,
    ) -> Result<(), IsolationError> {
        if environment.node != self.node {
            let why = format!("it is on another machine ({})", environment.node);
            return Err(IsolationError::Broken { path: environment.path.clone(), why });
        }
        match self.wait_for_mover(lock).await? {
            Holder::Us => Ok(()),
            Holder::Mover => Err(IsolationError::InTheMaking { work: environment.work.to_string() }),
            Holder::Commands(_) => Err(IsolationError::StillRunning { branch: environment.branch.clone() }),
        }
    }

    async fn stay(&self, trashed: &Trashed, rests: Status, error: RemovalError) -> IsolationError {
        let id = trashed.manifest.environment;
        if let Err(left) = trashed.stay() {
            tracing::error!(environment = %id, "an undo could not be taken back: {left}");
        } else if let Err(left) = self.store.stay_in_trash(id, rests).await {
            tracing::error!(environment = %id, "an undo that gave way could not be recorded: {left}");
        }
        IsolationError::Removal(error)
    }

    /// From the first rename back on. Also after a crash.
    pub(super) async fn return_rest(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        trashed: &mut Trashed,
    ) -> Result<(), IsolationError> {
        let repo = self.repository(codebase);
        let moved = IsolationError::Removal;
        trashed.return_entry(&repo).map_err(moved)?;
        // They come before the files; whoever commits there afterwards moves them.
        if trashed.files_are_buried() {
            trashed.return_branches(&repo).await.map_err(moved)?;
        }
        fault_point("branches-returned");
        trashed.return_files(&repo).await.map_err(moved)?;
        fault_point("files-returned");
        // Everything is in its place again: nothing needs a pin.
        trashed.forget(&repo).await.map_err(moved)?;
        fault_point("forgotten");
        self.store.leave_trash(environment.id).await?;
        fault_point("undone");
        let environment = self.reread(environment).await?;
        if let Err(error) = mirror::write(codebase, &environment) {
            tracing::warn!(environment = %environment.id, "its mirror could not be written: {error}");
        }
        tracing::info!(environment = %environment.id, branch = %environment.branch, "brought back");
        Ok(())
    }

    /// Who has the work, the branch or the path now.
    async fn successor(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Option<String>, IsolationError> {
        let all = self.store.environments(codebase.id, false).await?;
        let has = |other: &&Environment| {
            other.id != environment.id
                && (other.work == environment.work
                    || other.branch == environment.branch
                    || other.path == environment.path)
        };
        Ok(all.iter().find(has).map(|other| format!("`{}`", other.branch)))
    }
}
