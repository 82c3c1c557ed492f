//! Cleaning up after a creation that was cut short.

use grove_git::Git;
use grove_git::processes::end_calls_of;
use grove_model::{Codebase, Environment, Moment, Status};
use grove_store::Store;

use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::journal::branch_intent;
use crate::lease::{LEASE, is_gone, this_process};
use crate::mirror;

impl Isolation {
    /// Finishes what a crash right after the record left undone: the lock and the mirror.
    pub(crate) fn settle(&self, codebase: &Codebase, environment: &Environment) -> Result<bool, IsolationError> {
        let settled = self.provider.settle(codebase, environment)?;
        if settled {
            self.mirror_again(codebase, environment)?;
        }
        Ok(settled)
    }

    /// Writes the mirror of an environment if it is missing.
    pub(crate) fn mirror_again(&self, codebase: &Codebase, environment: &Environment) -> Result<bool, IsolationError> {
        if mirror::is_there(codebase, environment) {
            return Ok(false);
        }
        let written = mirror::write(codebase, environment).map(|()| true);
        written.map_err(|source| IsolationError::Io { what: format!("{} cannot be written", mirror::FOLDER), source })
    }

    pub(crate) fn git(&self) -> &Git {
        &self.git
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Undoes an unfinished creation whose owner is gone, and finishes or undoes a removal. `false`:
    /// its owner is alive, or it is on another machine, or somebody else was quicker; then there is
    /// nothing to do but wait.
    pub async fn recover(&self, codebase: &Codebase, environment: &Environment) -> Result<bool, IsolationError> {
        if environment.status == Status::Removing {
            return self.recover_removal(codebase, environment).await;
        }
        if environment.status != Status::Creating || !self.take_over_from_the_dead(environment).await? {
            return Ok(false);
        }
        let journal = self.store.journal(environment.id).await?;
        let kept = self.provider.withdraw(codebase, environment, branch_intent(&journal).as_ref()).await?;
        let why = match kept {
            None => "its creation was interrupted and undone".to_owned(),
            Some(path) => format!("its creation was interrupted; {} holds files and was left", path.display()),
        };
        self.store.abandon(environment.id, environment.nonce, &why).await?;
        // A worktree that was kept loses its lock only now, when nobody will withdraw it again.
        self.provider.settle(codebase, environment)?;
        self.store.record(environment.id, "withdrawn", Some(&why)).await?;
        tracing::info!(environment = %environment.id, branch = %environment.branch, "{why}");
        Ok(true)
    }

    /// Takes an unfinished step over whose owner on this machine is gone, and ends what it left
    /// running. Of several who try, one does.
    pub(crate) async fn take_over_from_the_dead(&self, environment: &Environment) -> Result<bool, IsolationError> {
        if environment.node != self.node {
            return Ok(false);
        }
        let Some(owner) = &environment.owner else { return Ok(true) };
        if !is_gone(owner, environment.lease_until, Moment::now()) {
            return Ok(false);
        }
        let until = Moment::now().plus(LEASE);
        if !self.store.take_over(environment.id, owner, this_process(), until).await? {
            return Ok(false);
        }
        // A git that it started may still be writing.
        if owner.boot == this_process().boot {
            end_calls_of(owner.process, owner.started).await;
        }
        Ok(true)
    }
}
