//! The end of a piece of work: merged into its base, or given up.

use grove_git::Repository;
use grove_git::finish::{FinishError, Finished, Method, checkouts_on_base, finish};
use grove_git::lock::{EnvironmentLock, Holder};
use grove_model::{BranchName, Codebase, Environment, Status};

use crate::environments::Isolation;
use crate::error::{IsolationError, RefusedAction};
use crate::journal::fault_point;
use crate::remove::{Asker, BranchWish, Held, RemovalWish, Removed};

impl Isolation {
    /// Merges the work into its base and removes the environment with its branch. Where another branch
    /// than the recorded one is checked out, `branch` says which of the two is meant. A conflict leaves
    /// everything as it is and the environment `failed`, with the files named. If somebody writes
    /// there while it is merged, the merge stands and the environment stays.
    pub async fn finish(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        method: Method,
        branch: Option<&BranchName>,
        asker: Asker,
    ) -> Result<(Finished, Result<Removed, IsolationError>), IsolationError> {
        let may_be = [Status::Active, Status::Failed];
        let Held { lock, environment, removable } = self.hold(codebase, environment, &may_be, &asker).await?;
        let branch = self.chosen_branch(codebase, &environment, branch).await?;
        let broken = |why: &str| IsolationError::Broken { path: environment.path.clone(), why: why.to_owned() };
        let reasons = removable.reasons(false);
        if !reasons.is_empty() {
            return Err(self.refusal(RefusedAction::Finish, environment, reasons));
        }
        let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
        let head = match removable.branch().tip().filter(|_| branch == environment.branch) {
            Some(tip) => Some(tip.clone()),
            None => repo.commit_of(&branch.full_ref()).await?,
        };
        let head = head.ok_or_else(|| broken("its branch is not there any more"))?;
        let base = environment.base_ref.clone().ok_or_else(|| broken("nothing is recorded of its base"))?;
        let _others = self.lock_checkouts_on_base(codebase, &environment, &repo, &base).await?;
        self.store.advance(environment.id, environment.status, Status::Merging, None).await?;
        fault_point("merging");
        let finished = match finish(&repo, &branch, &head, &base, method).await {
            Ok(finished) => finished,
            Err(error) => {
                let back = if matches!(error, FinishError::Conflict { .. }) { Status::Failed } else { Status::Active };
                // What can be tried again as it is leaves no failure behind.
                let why = (back == Status::Failed).then(|| error.to_string());
                self.store.advance(environment.id, Status::Merging, back, why.as_deref()).await?;
                return Err(IsolationError::Finish(Box::new(error)));
            }
        };
        fault_point("merged");
        self.store.record(environment.id, "merged", Some(finished.commit.as_str())).await?;
        fault_point("merge-recorded");
        self.store.advance(environment.id, Status::Merging, Status::Active, None).await?;
        fault_point("finished");
        let environment = self.reread(&environment).await?;
        // Removal takes it by itself, and looks at everything once more.
        drop(lock);
        let wish = RemovalWish { branch: BranchWish::Merged(head), asker, ..RemovalWish::default() };
        let removed = self.remove(codebase, &environment, &wish).await.map_err(|mut error| {
            if let IsolationError::Refused(refusal) = &mut error {
                refusal.action = RefusedAction::RemoveMerged;
            }
            error
        });
        Ok((finished, removed))
    }

    /// The locks of other environments that are on the base: their files change with it, so nothing may
    /// run there meanwhile.
    async fn lock_checkouts_on_base(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        repo: &Repository,
        base: &str,
    ) -> Result<Vec<EnvironmentLock>, IsolationError> {
        let paths = checkouts_on_base(repo, base).await.map_err(|error| IsolationError::Finish(Box::new(error)))?;
        let all = self.store.environments(codebase.id, false).await?;
        let on_base = all.iter().filter(|other| other.id != environment.id && paths.contains(&other.path));
        let mut locks = Vec::new();
        for other in on_base {
            let lock = self.lock_of(codebase, other)?;
            if self.try_alone(&lock)? != Holder::Us {
                return Err(IsolationError::StillRunning { branch: other.branch.clone() });
            }
            locks.push(lock);
        }
        Ok(locks)
    }

    /// After a crash: nobody is merging it any more. Whether its base has the work is for the next
    /// verdict to say.
    pub(crate) async fn stop_merging(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<bool, IsolationError> {
        let lock = self.lock_of(codebase, environment)?;
        if self.try_alone(&lock)? == Holder::Mover {
            return Ok(false);
        }
        self.end_merging(environment).await?;
        Ok(true)
    }

    /// The same for a caller who has seen by the lock that nobody is at it.
    pub(crate) async fn end_merging(&self, environment: &Environment) -> Result<(), IsolationError> {
        Ok(self.store.advance(environment.id, Status::Merging, Status::Active, None).await?)
    }

    /// Gives the work up: the environment and its branch go, whatever is on them, and can be brought
    /// back.
    pub async fn abort(&self, codebase: &Codebase, environment: &Environment) -> Result<Removed, IsolationError> {
        let wish = RemovalWish { force: true, branch: BranchWish::Drop, ..RemovalWish::default() };
        self.remove(codebase, environment, &wish).await
    }
}
