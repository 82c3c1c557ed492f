//! Hibernates and wakes an environment: a removal and an undo without an expiry.

use std::path::Path;

use grove_git::lock::EnvironmentHolder;
use grove_model::{Codebase, Environment, Moment, Question, Status};

use crate::environments::Environments;
use crate::error::{EnvironmentError, RefusedAction, RemoveError};
use crate::journal::fault_point;
use crate::provider::trash::TrashedEnvironment;
use crate::remove::execute::{TrashPurpose, fate_by};
use crate::remove::{
    HeldEnvironment, HibernatedEnvironment, RemovableEnvironment, RemovalPlan, RemovalRequester, RemoveOptions,
    RemoveOutcome, RestoredEnvironment,
};

impl Environments {
    /// Hibernates an environment until it is needed: its directory and registration go to the trash,
    /// compacted and without an expiry; record, branch and conversations stay. Everything in it is restored,
    /// so unsaved work is no reason against it; a command that runs there is.
    pub async fn hibernate_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<HibernatedEnvironment, EnvironmentError> {
        let HeldEnvironment { lock, environment, removable } =
            match self.hold_environment(codebase, environment, &[Status::Active], &RemovalRequester::Person).await {
                Err(error @ EnvironmentError::InTheMaking { .. }) => {
                    // Another process hibernated it first, or was interrupted after doing so.
                    let now = self.reload_environment(environment).await?;
                    let already = HibernatedEnvironment { environment: now, regenerable: Vec::new() };
                    return if already.environment.status == Status::Hibernated { Ok(already) } else { Err(error) };
                }
                held => held?,
            };
        let reasons = removable.blocking_answers(&[Question::LiveRun, Question::NestedWorktree]);
        if !reasons.is_empty() {
            return Err(self.refusal_error(RefusedAction::Hibernate, environment, reasons));
        }
        let options = RemoveOptions { force: true, ..RemoveOptions::default() };
        let put_away = self.put_away(codebase, &environment, &removable, &options, TrashPurpose::Asleep).await?;
        let regenerable = match put_away {
            RemoveOutcome::Trashed { regenerable, .. } => regenerable,
            RemoveOutcome::Gone | RemoveOutcome::Released(_) => Vec::new(),
        };
        // Files that git holds anyway need not be stored twice.
        if let Some(row) = self.store.trash_row(environment.id).await? {
            let trashed = self.open_trashed(codebase, &row)?;
            if let Err(error) = trashed.compact_files().await {
                tracing::warn!(environment = %environment.id, "not compacted: {error}");
            }
        }
        fault_point("compacted");
        drop(lock);
        Ok(HibernatedEnvironment { environment: self.reload_environment(&environment).await?, regenerable })
    }

    /// Plans the removal of a hibernated environment. It need not wake for that: it is already in the trash.
    pub(super) async fn plan_sleeping(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        requester: &RemovalRequester,
        holder: &EnvironmentHolder,
    ) -> Result<RemovalPlan, EnvironmentError> {
        if environment.node != self.node {
            let why = format!("it is on another machine ({})", environment.node);
            return Err(EnvironmentError::Broken { path: environment.path.clone(), why });
        }
        let trashed = self.find_hibernated(codebase, environment).await?;
        let files = &trashed.manifest().files;
        match files.symlink_metadata() {
            Ok(_) => {}
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let what = format!("{} cannot be looked at", files.display());
                return Err(EnvironmentError::Io { what, source: error });
            }
            // The files were deleted, unless their disk is not mounted.
            Err(_) if environment.path.parent().is_some_and(Path::exists) => return Ok(RemovalPlan::Gone),
            Err(_) => return Err(EnvironmentError::NotMounted(environment.path.clone())),
        }
        let needed = self.needed_branches(codebase, environment).await?;
        let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
        let check = trashed.check_again(&needed).await;
        let check = check.map_err(RemoveError::Removal)?;
        let removable = self.with_record(environment, requester, holder, trashed.entry_in_trash(), check).await?;
        Ok(RemovalPlan::Remove(Box::new(removable)))
    }

    /// Removes a hibernated environment. The caller holds its lock. From now on its trash expires, and its
    /// branch is deleted by the same rules as any other.
    pub(super) async fn remove_sleeping(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        removable: &RemovableEnvironment,
        options: &RemoveOptions,
    ) -> Result<RemoveOutcome, EnvironmentError> {
        let mut trashed = self.find_hibernated(codebase, environment).await?;
        let fate = fate_by(&removable.branch, options, TrashPurpose::Trash);
        trashed.manifest_mut().recount = fate == removable.check.branch;
        trashed.manifest_mut().fate = fate;
        trashed.manifest_mut().removed_at = Moment::now();
        // Before the intent: from there on, recovery after a crash goes forward.
        trashed.write_manifest().await.map_err(RemoveError::Removal)?;
        self.begin_removal(environment, trashed.manifest(), options, TrashPurpose::Trash).await?;
        self.complete_removal(codebase, environment, &*trashed, TrashPurpose::Trash).await
    }

    /// Returns the trashed worktree of a hibernated environment.
    async fn find_hibernated(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Box<dyn TrashedEnvironment>, EnvironmentError> {
        let row = self.store.trash_row(environment.id).await?;
        let row =
            row.ok_or_else(|| EnvironmentError::Remove(RemoveError::NotInTrash(environment.branch.to_string())))?;
        self.open_trashed(codebase, &row)
    }

    /// Wakes a hibernated environment, at the same path.
    pub async fn wake_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<RestoredEnvironment, EnvironmentError> {
        let now = self.reload_environment(environment).await?;
        if !matches!(now.status, Status::Hibernated | Status::Removing) {
            return Err(EnvironmentError::Remove(RemoveError::NotHibernated {
                branch: now.branch,
                status: now.status,
            }));
        }
        match self.undo_removal(codebase, &now).await {
            Err(error @ EnvironmentError::Remove(RemoveError::NotInTrash(_))) => {
                // Another process woke it, or the recovery of an interrupted wake did.
                let now = self.reload_environment(&now).await?;
                if now.status == Status::Active {
                    Ok(RestoredEnvironment { environment: now, gone: Vec::new() })
                } else {
                    Err(error)
                }
            }
            woken => woken,
        }
    }
}
