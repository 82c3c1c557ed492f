//! Executes a removal, step by step.

use std::time::Duration;

use grove_git::lock::{EnvironmentHolder, EnvironmentLock};
use grove_git::removal::{BranchFate, RegenerableNames, RemovalError, TrashManifest};
use grove_model::{Codebase, Environment, Moment, Question, RemovalAnswer, Status};
use grove_store::{BeginOutcome, ConversationRef, RemovalIntent};

use crate::environments::Environments;
use crate::error::{ActionRefusal, EnvironmentError, RefusedAction, RemoveError};
use crate::journal::fault_point;
use crate::lease::{OWNER_LEASE_DURATION, this_process};
use crate::mirror;
use crate::provider::trash::{TrashedEnvironment, subject_of};
use crate::remove::plan::lock_failed;
use crate::remove::trash::delete_locks;
use crate::remove::{BranchPolicy, RemovableEnvironment, RemovalPlan, RemovalRequester, RemoveOptions, RemoveOutcome};

/// The time to wait for another process that moves an environment.
const MOVER_WAIT_TIMEOUT: Duration = Duration::from_secs(30);

impl Environments {
    /// Removes an environment, or returns every reason against it. [`Environments::undo_removal`] restores
    /// what is removed.
    #[tracing::instrument(name = "remove", skip_all, fields(codebase = codebase.name, environment = %environment.id))]
    pub async fn remove_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        options: &RemoveOptions,
    ) -> Result<RemoveOutcome, EnvironmentError> {
        self.quarantine_broken(codebase).await?;
        let lock = self.lock_of(codebase, environment)?;
        let mut holder = self.wait_for_mover(&lock).await?;
        if holder == EnvironmentHolder::Mover {
            return Err(EnvironmentError::InTheMaking { work: environment.work.to_string() });
        }
        // It may have been moved while this call waited.
        let environment = self.settled_record(codebase, environment).await?;
        let mut plan = self.plan_with(codebase, &environment, &options.requester, &holder).await?;
        if let (RemovalPlan::Remove(_), EnvironmentHolder::Commands(_), true) = (&plan, &holder, options.force) {
            if !lock.end_commands().await.map_err(lock_failed)? {
                return Err(EnvironmentError::Remove(RemoveError::StillRunning { branch: environment.branch }));
            }
            holder = EnvironmentHolder::Us;
            plan = self.plan_with(codebase, &environment, &options.requester, &holder).await?;
        }
        match plan {
            RemovalPlan::Gone if environment.status == Status::Hibernated => {
                self.store.end_sleep(environment.id, self.keep_until(Moment::now())).await?;
                remove_mirror(codebase, &environment);
                Ok(RemoveOutcome::Gone)
            }
            RemovalPlan::Gone => {
                self.end_record(codebase, &environment, Some("its folder is gone")).await?;
                self.provider.forget_missing(codebase, &environment).await?;
                delete_locks(environment.id, lock);
                Ok(RemoveOutcome::Gone)
            }
            RemovalPlan::Release => {
                self.end_record(codebase, &environment, None).await?;
                delete_locks(environment.id, lock);
                Ok(RemoveOutcome::Released(environment.path))
            }
            RemovalPlan::Remove(mut removable) => {
                if options.seen.as_ref().is_some_and(|seen| seen != removable.seen_fingerprint()) {
                    return Err(EnvironmentError::Remove(RemoveError::ChangedMeanwhile { path: environment.path }));
                }
                let reasons = removable.blocking_reasons(options.force);
                if !reasons.is_empty() {
                    return Err(self.refusal_error(RefusedAction::Remove, environment, reasons));
                }
                if options.branch == BranchPolicy::ByRule {
                    self.let_merged_branch_go(codebase, &environment, &mut removable).await?;
                }
                if environment.status == Status::Hibernated {
                    return self.remove_sleeping(codebase, &environment, &removable, options).await;
                }
                self.put_away(codebase, &environment, &removable, options, TrashPurpose::Trash).await
            }
        }
    }

    pub(crate) fn refusal_error(
        &self,
        action: RefusedAction,
        environment: Environment,
        reasons: Vec<(Question, RemovalAnswer)>,
    ) -> EnvironmentError {
        let keep_days = self.settings.current().trash_keep_days();
        EnvironmentError::Refused(Box::new(ActionRefusal { environment, reasons, keep_days, action }))
    }

    /// Returns who holds the environment, after waiting for a process that moves it.
    pub(crate) async fn wait_for_mover(&self, lock: &EnvironmentLock) -> Result<EnvironmentHolder, EnvironmentError> {
        let began = std::time::Instant::now();
        loop {
            match lock.try_alone().map_err(lock_failed)? {
                EnvironmentHolder::Mover if began.elapsed() < MOVER_WAIT_TIMEOUT => {
                    tokio::time::sleep(Duration::from_millis(20)).await
                }
                holder => return Ok(holder),
            }
        }
    }

    /// Returns the current record, after finishing what a crash left half way. The caller has checked by the
    /// lock that no process moves the environment.
    pub(super) async fn settled_record(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Environment, EnvironmentError> {
        let now = self.reload_environment(environment).await?;
        match now.status {
            Status::Creating => drop(self.recover_environment(codebase, &now).await?),
            Status::Removing => drop(self.recover_held(codebase, &now).await?),
            Status::Merging if now.node == self.node => self.end_merging(&now).await?,
            _ => {}
        }
        let now = self.reload_environment(environment).await?;
        match now.status {
            Status::Destroyed => Err(EnvironmentError::NoSuch(now.branch.to_string())),
            Status::Creating | Status::Removing => Err(EnvironmentError::InTheMaking { work: now.work.to_string() }),
            _ => Ok(now),
        }
    }

    /// Ends the record; on disk, only its mirror is touched.
    async fn end_record(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        why: Option<&str>,
    ) -> Result<(), EnvironmentError> {
        self.store.advance_status(environment.id, environment.status, Status::Destroyed, why).await?;
        self.store.clear_references(environment.id).await?;
        remove_mirror(codebase, environment);
        Ok(())
    }

    pub(super) async fn put_away(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        removable: &RemovableEnvironment,
        options: &RemoveOptions,
        rest: TrashPurpose,
    ) -> Result<RemoveOutcome, EnvironmentError> {
        let names = RegenerableNames::default();
        let subject = subject_of(environment, &removable.entry, &names);
        let mut manifest = TrashManifest::new(environment.id, subject, &removable.check, Moment::now());
        let fate = fate_by(&removable.branch, options, rest);
        manifest.recount = fate == manifest.fate;
        manifest.fate = fate;
        let trashed = self.provider.trashed_environment(codebase, manifest, Some(&removable.entry));
        self.begin_removal(environment, trashed.manifest(), options, rest).await?;
        if let Err(error) = self.move_to_trash(&*trashed, environment, removable).await {
            let error = error.with_disk_explanation(&codebase.git_common_dir);
            return Err(self.give_way(&*trashed, error).await);
        }
        self.complete_removal(codebase, environment, &*trashed, rest).await
    }

    /// Records the intent in the store, after another check of who uses the environment.
    pub(super) async fn begin_removal(
        &self,
        environment: &Environment,
        manifest: &TrashManifest,
        options: &RemoveOptions,
        rest: TrashPurpose,
    ) -> Result<(), EnvironmentError> {
        let text = serde_json::to_string(manifest).map_err(|error| {
            EnvironmentError::Remove(RemoveError::Removal(RemovalError::BadManifest(error.to_string())))
        })?;
        let but_for: Option<&[ConversationRef]> = match &options.requester {
            RemovalRequester::Conversation(us) if !options.force => Some(std::slice::from_ref(us)),
            _ => None,
        };
        let intent = RemovalIntent {
            environment: environment.id,
            from: environment.status,
            owner: this_process(),
            lease_until: Moment::now().add_duration(OWNER_LEASE_DURATION),
            manifest: &text,
            removed_at: manifest.removed_at,
            sleeps: rest == TrashPurpose::Asleep,
            but_for,
        };
        match self.store.begin_removal(&intent).await? {
            BeginOutcome::Yes => {}
            BeginOutcome::InUse(others) => {
                let reason = (Question::Conversations, RemovalAnswer::Yes(others.join(", ")));
                return Err(self.refusal_error(RefusedAction::Remove, environment.clone(), vec![reason]));
            }
            BeginOutcome::Moved | BeginOutcome::Successor => {
                return Err(EnvironmentError::Remove(RemoveError::ChangedMeanwhile { path: environment.path.clone() }));
            }
        }
        fault_point("removing");
        Ok(())
    }

    /// Runs the removal up to the moment when both renames are done.
    async fn move_to_trash(
        &self,
        trashed: &dyn TrashedEnvironment,
        environment: &Environment,
        removable: &RemovableEnvironment,
    ) -> Result<(), EnvironmentError> {
        trashed.prepare(environment, &removable.check).await?;
        fault_point("pinned");
        // This process held the lock during the checks. A process that works there without the lock is
        // noticed by what git writes; what it writes into files moves with the directory.
        if !trashed.is_unchanged_since(&removable.check) {
            return Err(EnvironmentError::Remove(RemoveError::ChangedMeanwhile { path: environment.path.clone() }));
        }
        trashed.move_files_to_trash().map_err(RemoveError::Removal)?;
        fault_point("files-buried");
        trashed.move_entry_to_trash().map_err(EnvironmentError::from)
    }

    /// Takes back a removal that could not be done: everything returns to its place. Returns the error to
    /// report.
    async fn give_way(&self, trashed: &dyn TrashedEnvironment, error: EnvironmentError) -> EnvironmentError {
        let back = async {
            trashed.return_moved_files()?;
            trashed.cancel_removal().await
        };
        let id = trashed.manifest().environment;
        match back.await {
            Ok(()) => {
                if let Err(store) = self.store.leave_trash(id).await {
                    tracing::error!(environment = %id, "a removal that gave way could not be recorded: {store}");
                }
            }
            // The intent stays; the next recovery continues from here.
            Err(left) => tracing::error!(environment = %id, "a removal could not be taken back: {left}"),
        }
        error
    }

    /// Finishes a removal from the second rename on: branch, mirror, record. Also runs after a crash.
    pub(super) async fn complete_removal(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        trashed: &dyn TrashedEnvironment,
        rest: TrashPurpose,
    ) -> Result<RemoveOutcome, EnvironmentError> {
        fault_point("entry-buried");
        let branch_gone = match trashed.drop_branch().await {
            Ok(gone) => gone,
            Err(error) => {
                tracing::warn!(environment = %environment.id, "its branch stays: {error}");
                false
            }
        };
        fault_point("branch-gone");
        let undo_until = self.keep_until(trashed.manifest().removed_at);
        match rest {
            TrashPurpose::Trash => {
                remove_mirror(codebase, environment);
                self.store.end_removal(environment.id, Status::Destroyed, Some(undo_until)).await?;
            }
            TrashPurpose::Asleep => self.store.end_removal(environment.id, Status::Hibernated, None).await?,
        }
        fault_point("destroyed");
        tracing::info!(environment = %environment.id, branch = %environment.branch, "removed");
        let fate = trashed.manifest().fate.clone();
        let until = Some(undo_until).filter(|_| rest == TrashPurpose::Trash);
        let mut regenerable = self.regenerable_in(trashed, trashed.manifest().removed_at, until);
        regenerable.retain(|folder| !folder.gone);
        Ok(RemoveOutcome::Trashed { fate, branch_kept: !branch_gone, undo_until, regenerable })
    }
}

/// The purpose of moving an environment to the trash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrashPurpose {
    /// Removed; can be restored for a while.
    Trash,
    /// Hibernated; restored when it is needed.
    Asleep,
}

/// Returns what happens to the branch, given the options of the request.
pub(super) fn fate_by(seen: &BranchFate, options: &RemoveOptions, rest: TrashPurpose) -> BranchFate {
    match seen {
        BranchFate::Goes { tip } if rest == TrashPurpose::Asleep => BranchFate::InUse { tip: tip.clone() },
        BranchFate::OwnCommits { tip, .. }
            if rest == TrashPurpose::Trash
                && (options.branch == BranchPolicy::Drop || options.branch == BranchPolicy::Merged(tip.clone())) =>
        {
            BranchFate::Goes { tip: tip.clone() }
        }
        other => other.clone(),
    }
}

/// Deletes the mirror. A failure is only logged: a mirror that stays is a nuisance, not a loss.
pub(super) fn remove_mirror(codebase: &Codebase, environment: &Environment) {
    if let Err(error) = mirror::delete_mirror(codebase, environment) {
        tracing::warn!(environment = %environment.id, "its mirror could not be taken away: {error}");
    }
}
