//! Ends a piece of work: merges it into its base, or gives it up.

use grove_git::Repository;
use grove_git::finish::{FinishError, FinishMethod, FinishOutcome, checkouts_on_base, merge_into_base};
use grove_git::lock::{EnvironmentHolder, EnvironmentLock};
use grove_model::{BranchName, Codebase, Environment, Status};

use crate::environments::Environments;
use crate::error::{EnvironmentError, IntegrateError, RefusedAction, RemoveError};
use crate::journal::fault_point;
use crate::remove::{BranchPolicy, HeldEnvironment, RemovalRequester, RemoveOptions, RemoveOutcome};

impl Environments {
    /// Merges the work into its base and removes the environment with its branch. If another branch than the
    /// recorded one is checked out, `branch` says which of the two is meant. A conflict leaves everything as
    /// it is and sets the environment to `failed`, with the files named. If another process writes there
    /// during the merge, the merge stands and the environment stays.
    pub async fn finish_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        method: FinishMethod,
        branch: Option<&BranchName>,
        requester: RemovalRequester,
    ) -> Result<(FinishOutcome, Result<RemoveOutcome, EnvironmentError>), EnvironmentError> {
        let may_be = [Status::Active, Status::Failed];
        let HeldEnvironment { lock, environment, removable } =
            self.hold_environment(codebase, environment, &may_be, &requester).await?;
        let branch = self.chosen_branch(codebase, &environment, branch).await?;
        let broken = |why: &str| EnvironmentError::Broken { path: environment.path.clone(), why: why.to_owned() };
        let reasons = removable.blocking_reasons(false);
        if !reasons.is_empty() {
            return Err(self.refusal_error(RefusedAction::Finish, environment, reasons));
        }
        let repo = self.open_repository(codebase);
        let head = match removable.branch_fate().tip_commit().filter(|_| branch == environment.branch) {
            Some(tip) => Some(tip.clone()),
            None => repo.commit_of(&branch.full_ref()).await?,
        };
        let head = head.ok_or_else(|| broken("its branch is not there any more"))?;
        let base = environment.base_ref.clone().ok_or_else(|| broken("nothing is recorded of its base"))?;
        let _others = self.lock_checkouts_on_base(codebase, &environment, &repo, &base).await?;
        self.store.advance_status(environment.id, environment.status, Status::Merging, None).await?;
        fault_point("merging");
        let finished = match merge_into_base(&repo, &branch, &head, &base, method).await {
            Ok(finished) => finished,
            Err(error) => {
                let back = if matches!(error, FinishError::Conflict { .. }) { Status::Failed } else { Status::Active };
                // An operation that can be retried as it is leaves no failure behind.
                let why = (back == Status::Failed).then(|| error.to_string());
                self.store.advance_status(environment.id, Status::Merging, back, why.as_deref()).await?;
                return Err(EnvironmentError::Integrate(IntegrateError::Finish(Box::new(error))));
            }
        };
        fault_point("merged");
        self.store.record_journal_line(environment.id, "merged", Some(finished.commit.as_str())).await?;
        fault_point("merge-recorded");
        self.store.advance_status(environment.id, Status::Merging, Status::Active, None).await?;
        fault_point("finished");
        let environment = self.reload_environment(&environment).await?;
        // The removal takes the lock by itself, and checks everything once more.
        drop(lock);
        let options = RemoveOptions { branch: BranchPolicy::Merged(head), requester, ..RemoveOptions::default() };
        let removed = self.remove_environment(codebase, &environment, &options).await.map_err(|mut error| {
            if let EnvironmentError::Refused(refusal) = &mut error {
                refusal.action = RefusedAction::RemoveMerged;
            }
            error
        });
        Ok((finished, removed))
    }

    /// Locks the other environments that are on the base: their files change with it, so nothing may run
    /// there meanwhile.
    async fn lock_checkouts_on_base(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        repo: &Repository,
        base: &str,
    ) -> Result<Vec<EnvironmentLock>, EnvironmentError> {
        let paths = checkouts_on_base(repo, base)
            .await
            .map_err(|error| EnvironmentError::Integrate(IntegrateError::Finish(Box::new(error))))?;
        let all = self.store.list_environments(codebase.id, false).await?;
        let on_base = all.iter().filter(|other| other.id != environment.id && paths.contains(&other.path));
        let mut locks = Vec::new();
        for other in on_base {
            let lock = self.lock_of(codebase, other)?;
            if self.try_alone(&lock)? != EnvironmentHolder::Us {
                return Err(EnvironmentError::Remove(RemoveError::StillRunning { branch: other.branch.clone() }));
            }
            locks.push(lock);
        }
        Ok(locks)
    }

    /// Ends the merging status after a crash, when no process is merging any more. The next verdict tells
    /// whether the base contains the work. Returns `false` if another process moves the environment.
    pub(crate) async fn stop_merging(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<bool, EnvironmentError> {
        let lock = self.lock_of(codebase, environment)?;
        if self.try_alone(&lock)? == EnvironmentHolder::Mover {
            return Ok(false);
        }
        self.end_merging(environment).await?;
        Ok(true)
    }

    /// Ends the merging status. The caller has checked by the lock that no process is merging.
    pub(crate) async fn end_merging(&self, environment: &Environment) -> Result<(), EnvironmentError> {
        Ok(self.store.advance_status(environment.id, Status::Merging, Status::Active, None).await?)
    }

    /// Gives the work up: removes the environment and its branch, whatever is on them. Both can be restored.
    pub async fn abort_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<RemoveOutcome, EnvironmentError> {
        let options = RemoveOptions { force: true, branch: BranchPolicy::Drop, ..RemoveOptions::default() };
        self.remove_environment(codebase, environment, &options).await
    }
}
