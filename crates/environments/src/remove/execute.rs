//! A removal, step by step.

use std::time::Duration;

use grove_git::lock::{EnvironmentLock, Holder};
use grove_git::removal::look::{Subject, pin_all, stamp};
use grove_git::removal::{BranchFate, Manifest, RegenerableNames, RemovalError, Trashed};
use grove_git::{GitError, Repository};
use grove_model::{Answer, Codebase, Environment, Moment, Question, Status};
use grove_store::{Begun, ConversationRef, Intent};

use crate::environments::Isolation;
use crate::error::{IsolationError, Refusal, RefusedAction};
use crate::journal::fault_point;
use crate::lease::{LEASE, this_process};
use crate::mirror;
use crate::remove::plan::lock_failed;
use crate::remove::trash::delete_locks;
use crate::remove::{Asker, BranchWish, Plan, Removable, RemovalWish, Removed};

/// How long somebody else who moves an environment is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

impl Isolation {
    /// Removes an environment, or says everything that speaks against it. What is removed can be
    /// brought back by [`Isolation::undo`].
    pub async fn remove(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        wish: &RemovalWish,
    ) -> Result<Removed, IsolationError> {
        self.quarantine_broken(codebase).await?;
        let lock = self.lock_of(codebase, environment)?;
        let mut holder = self.wait_for_mover(&lock).await?;
        if holder == Holder::Mover {
            return Err(IsolationError::InTheMaking { work: environment.work.to_string() });
        }
        // It may have been moved while we waited.
        let environment = self.as_it_is(codebase, environment).await?;
        let mut plan = self.plan_with(codebase, &environment, &wish.asker, &holder).await?;
        if let (Plan::Remove(_), Holder::Commands(_), true) = (&plan, &holder, wish.force) {
            if !lock.end_commands().await.map_err(lock_failed)? {
                return Err(IsolationError::StillRunning { branch: environment.branch });
            }
            holder = Holder::Us;
            plan = self.plan_with(codebase, &environment, &wish.asker, &holder).await?;
        }
        match plan {
            Plan::Gone if environment.status == Status::Hibernated => {
                self.store.end_sleep(environment.id, self.keep_until(Moment::now())).await?;
                remove_mirror(codebase, &environment);
                Ok(Removed::Gone)
            }
            Plan::Gone => {
                self.end_record(codebase, &environment, Some("its folder is gone")).await?;
                self.provider.forget(codebase, &environment).await?;
                delete_locks(environment.id, lock);
                Ok(Removed::Gone)
            }
            Plan::Release => {
                self.end_record(codebase, &environment, None).await?;
                delete_locks(environment.id, lock);
                Ok(Removed::Released(environment.path))
            }
            Plan::Remove(mut removable) => {
                if wish.seen.as_ref().is_some_and(|seen| seen != removable.fingerprint()) {
                    return Err(IsolationError::ChangedMeanwhile { path: environment.path });
                }
                let reasons = removable.reasons(wish.force);
                if !reasons.is_empty() {
                    return Err(self.refusal(RefusedAction::Remove, environment, reasons));
                }
                if wish.branch == BranchWish::ByRule {
                    self.let_merged_branch_go(codebase, &environment, &mut removable).await?;
                }
                if environment.status == Status::Hibernated {
                    return self.remove_sleeping(codebase, &environment, &removable, wish).await;
                }
                self.put_away(codebase, &environment, &removable, wish, Rest::Trash).await
            }
        }
    }

    pub(crate) fn refusal(
        &self,
        action: RefusedAction,
        environment: Environment,
        reasons: Vec<(Question, Answer)>,
    ) -> IsolationError {
        let keep_days = self.settings.trash_keep_days();
        IsolationError::Refused(Box::new(Refusal { environment, reasons, keep_days, action }))
    }

    /// Who has the environment; somebody who moves it is waited for.
    pub(crate) async fn wait_for_mover(&self, lock: &EnvironmentLock) -> Result<Holder, IsolationError> {
        let began = std::time::Instant::now();
        loop {
            match lock.try_alone().map_err(lock_failed)? {
                Holder::Mover if began.elapsed() < PATIENCE => tokio::time::sleep(Duration::from_millis(20)).await,
                holder => return Ok(holder),
            }
        }
    }

    /// The record as it is now, with what a crash left half way finished. For a caller who has seen
    /// by the lock that nobody moves it.
    pub(super) async fn as_it_is(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Environment, IsolationError> {
        let now = self.reread(environment).await?;
        match now.status {
            Status::Creating => drop(self.recover(codebase, &now).await?),
            Status::Removing => drop(self.recover_held(codebase, &now).await?),
            Status::Merging if now.node == self.node => self.end_merging(&now).await?,
            _ => {}
        }
        let now = self.reread(environment).await?;
        match now.status {
            Status::Destroyed => Err(IsolationError::NoSuch(now.branch.to_string())),
            Status::Creating | Status::Removing => Err(IsolationError::InTheMaking { work: now.work.to_string() }),
            _ => Ok(now),
        }
    }

    /// The record ends; nothing on disk is touched but its mirror.
    async fn end_record(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        why: Option<&str>,
    ) -> Result<(), IsolationError> {
        self.store.advance(environment.id, environment.status, Status::Destroyed, why).await?;
        self.store.clear_references(environment.id).await?;
        remove_mirror(codebase, environment);
        Ok(())
    }

    pub(super) async fn put_away(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        removable: &Removable,
        wish: &RemovalWish,
        rest: Rest,
    ) -> Result<Removed, IsolationError> {
        let repo = self.repository(codebase);
        let now = Moment::now();
        let subject = Subject {
            path: &environment.path,
            entry: &removable.entry,
            branch: &environment.branch,
            needed: &[],
            regenerable: &RegenerableNames::default(),
        };
        let mut manifest = Manifest::new(environment.id, subject, &removable.look, now);
        let fate = fate_by(&removable.branch, wish, rest);
        manifest.recount = fate == manifest.fate;
        manifest.fate = fate;
        let trashed = Trashed::new(&repo, manifest);
        self.begin(environment, &trashed, wish, rest).await?;
        if let Err(error) = self.bury(&repo, &trashed, subject, removable).await {
            let error = error.explained(&repo.common_dir);
            return Err(self.give_way(&repo, &trashed, error).await);
        }
        self.bury_rest(codebase, environment, &trashed, rest).await
    }

    /// Puts the intent into the store, with another look at who uses it.
    pub(super) async fn begin(
        &self,
        environment: &Environment,
        trashed: &Trashed,
        wish: &RemovalWish,
        rest: Rest,
    ) -> Result<(), IsolationError> {
        let manifest = serde_json::to_string(&trashed.manifest)
            .map_err(|error| IsolationError::Removal(RemovalError::BadManifest(error.to_string())))?;
        let but_for: Option<&[ConversationRef]> = match &wish.asker {
            Asker::Conversation(us) if !wish.force => Some(std::slice::from_ref(us)),
            _ => None,
        };
        let intent = Intent {
            environment: environment.id,
            from: environment.status,
            owner: this_process(),
            lease_until: Moment::now().plus(LEASE),
            manifest: &manifest,
            removed_at: trashed.manifest.removed_at,
            sleeps: rest == Rest::Asleep,
            but_for,
        };
        match self.store.begin_removal(&intent).await? {
            Begun::Yes => {}
            Begun::InUse(others) => {
                let reason = (Question::Conversations, Answer::Yes(others.join(", ")));
                return Err(self.refusal(RefusedAction::Remove, environment.clone(), vec![reason]));
            }
            Begun::Moved | Begun::Successor => {
                return Err(IsolationError::ChangedMeanwhile { path: environment.path.clone() });
            }
        }
        fault_point("removing");
        Ok(())
    }

    /// Up to the moment when both renames are done.
    async fn bury(
        &self,
        repo: &Repository,
        trashed: &Trashed,
        subject: Subject<'_>,
        removable: &Removable,
    ) -> Result<(), IsolationError> {
        let base = trashed.manifest.pins();
        let (prepared, pinned) = tokio::join!(trashed.prepare(repo), pin_all(repo, &base, subject, &removable.look));
        prepared.map_err(IsolationError::Removal)?;
        pinned.map_err(|error| match error {
            GitError::Interrupted { .. } => IsolationError::Git(error),
            other => IsolationError::Removal(RemovalError::Pin(other.to_string())),
        })?;
        fault_point("pinned");
        // We had the lock when everything was asked; whoever works there without it is noticed by
        // what git writes, and what they write into files goes with the directory.
        if stamp(subject.entry) != removable.look.stamp {
            return Err(IsolationError::ChangedMeanwhile { path: subject.path.to_owned() });
        }
        trashed.bury_files().map_err(IsolationError::Removal)?;
        fault_point("files-buried");
        trashed.bury_entry(repo).map_err(IsolationError::Removal)
    }

    /// Nothing happened: everything goes back to where it was. Gives the error to report.
    async fn give_way(&self, repo: &Repository, trashed: &Trashed, error: IsolationError) -> IsolationError {
        let back = async {
            trashed.unbury_files()?;
            trashed.abandon(repo).await
        };
        let id = trashed.manifest.environment;
        match back.await {
            Ok(()) => {
                if let Err(store) = self.store.leave_trash(id).await {
                    tracing::error!(environment = %id, "a removal that gave way could not be recorded: {store}");
                }
            }
            // The intent stays; the next look goes on from here.
            Err(left) => tracing::error!(environment = %id, "a removal could not be taken back: {left}"),
        }
        error
    }

    /// From the second rename on: branch, mirror, record. Also after a crash.
    pub(super) async fn bury_rest(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        trashed: &Trashed,
        rest: Rest,
    ) -> Result<Removed, IsolationError> {
        let repo = self.repository(codebase);
        fault_point("entry-buried");
        let branch_gone = match trashed.drop_branch(&repo).await {
            Ok(gone) => gone,
            Err(error) => {
                tracing::warn!(environment = %environment.id, "its branch stays: {error}");
                false
            }
        };
        fault_point("branch-gone");
        let undo_until = self.keep_until(trashed.manifest.removed_at);
        match rest {
            Rest::Trash => {
                remove_mirror(codebase, environment);
                self.store.end_removal(environment.id, Status::Destroyed, Some(undo_until)).await?;
            }
            Rest::Asleep => self.store.end_removal(environment.id, Status::Hibernated, None).await?,
        }
        fault_point("destroyed");
        tracing::info!(environment = %environment.id, branch = %environment.branch, "removed");
        let fate = trashed.manifest.fate.clone();
        let until = Some(undo_until).filter(|_| rest == Rest::Trash);
        let mut regenerable = self.regenerable_in(trashed, trashed.manifest.removed_at, until);
        regenerable.retain(|folder| !folder.gone);
        Ok(Removed::Trashed { fate, branch_kept: !branch_gone, undo_until, regenerable })
    }
}

/// What an environment is put away for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Removed; can be brought back for a while.
    Trash,
    /// Hibernated; comes back when it is needed.
    Asleep,
}

/// What becomes of the branch, with what whoever asks knows or wants.
pub(super) fn fate_by(seen: &BranchFate, wish: &RemovalWish, rest: Rest) -> BranchFate {
    match seen {
        BranchFate::Goes { tip } if rest == Rest::Asleep => BranchFate::InUse { tip: tip.clone() },
        BranchFate::OwnCommits { tip, .. }
            if rest == Rest::Trash
                && (wish.branch == BranchWish::Drop || wish.branch == BranchWish::Merged(tip.clone())) =>
        {
            BranchFate::Goes { tip: tip.clone() }
        }
        other => other.clone(),
    }
}

/// A mirror that stays is a nuisance, not a loss.
pub(super) fn remove_mirror(codebase: &Codebase, environment: &Environment) {
    if let Err(error) = mirror::remove(codebase, environment) {
        tracing::warn!(environment = %environment.id, "its mirror could not be taken away: {error}");
    }
}
