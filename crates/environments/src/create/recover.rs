//! Cleans up after a creation that was interrupted.

use grove_model::{Codebase, Environment, Moment, Status};

use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::journal::branch_intent;
use crate::lease::{OWNER_LEASE_DURATION, end_calls_of_gone, is_gone, this_process};
use crate::mirror;

impl Environments {
    /// Finishes the steps that a crash right after the record left undone: the lock and the mirror.
    pub(crate) fn finish_recorded_creation(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<bool, EnvironmentError> {
        let settled = self.provider.clear_unfinished_mark(codebase, environment)?;
        if settled {
            self.mirror_again(codebase, environment)?;
        }
        Ok(settled)
    }

    /// Writes the mirror of an environment if it is missing.
    pub(crate) fn mirror_again(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<bool, EnvironmentError> {
        if mirror::is_there(codebase, environment) {
            return Ok(false);
        }
        let written = mirror::write_mirror(codebase, environment).map(|()| true);
        written.map_err(|source| EnvironmentError::Io {
            what: format!("{} cannot be written", mirror::MIRROR_FOLDER),
            source,
        })
    }

    /// Undoes an unfinished creation whose owner is gone, and finishes or undoes a removal. Returns `false`
    /// if the owner is alive, if the environment is on another machine, or if another process was quicker;
    /// then the caller can only wait.
    pub async fn recover_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<bool, EnvironmentError> {
        if environment.status == Status::Removing {
            return self.recover_removal(codebase, environment).await;
        }
        if environment.status != Status::Creating || !self.take_over_from_the_dead(environment).await? {
            return Ok(false);
        }
        let journal = self.store.journal_lines(environment.id).await?;
        let kept = self.provider.withdraw_creation(codebase, environment, branch_intent(&journal).as_ref()).await?;
        let why = match kept {
            None => "its creation was interrupted and undone".to_owned(),
            Some(path) => format!("its creation was interrupted; {} holds files and was left", path.display()),
        };
        self.store.abandon_environment(environment.id, environment.nonce, &why).await?;
        // A worktree that was kept loses its lock only now, when no other process will withdraw it again.
        self.provider.clear_unfinished_mark(codebase, environment)?;
        self.store.record_journal_line(environment.id, "withdrawn", Some(&why)).await?;
        tracing::info!(environment = %environment.id, branch = %environment.branch, "{why}");
        Ok(true)
    }

    /// Takes over an unfinished step whose owner on this machine is gone, and ends the processes that the
    /// owner left running. If several processes try, one succeeds.
    pub(crate) async fn take_over_from_the_dead(&self, environment: &Environment) -> Result<bool, EnvironmentError> {
        if environment.node != self.node {
            return Ok(false);
        }
        let Some(owner) = &environment.owner else { return Ok(true) };
        if !is_gone(owner, environment.lease_until, Moment::now()) {
            return Ok(false);
        }
        let until = Moment::now().add_duration(OWNER_LEASE_DURATION);
        if !self.store.take_over(environment.id, owner, this_process(), until).await? {
            return Ok(false);
        }
        end_calls_of_gone(owner).await;
        Ok(true)
    }
}
