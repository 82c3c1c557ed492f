//! Environments as they are now: the branch that is checked out there counts, not the recorded one.
//!
//! A renamed branch is followed. Where another branch is checked out, or none, the record stays and each
//! command decides what that means for it.

use grove_git::Repository;
use grove_git::checked_out::CheckedOut;
use grove_git::finish::would_conflict;
use grove_model::{BranchName, Codebase, CommitSha, Environment, InitStatus, Status};

use crate::environments::Environments;
use crate::error::{EnvironmentError, IntegrateError};
use crate::inspect::find::find_by_name;
use crate::mirror;

impl Environments {
    /// Returns the environments of a codebase. Renamed branches are followed, and failures whose cause is
    /// gone are ended; `all` includes destroyed environments.
    pub async fn current_environments(
        &self,
        codebase: &Codebase,
        all: bool,
    ) -> Result<Vec<Environment>, EnvironmentError> {
        let mut environments = self.store.list_environments(codebase.id, all).await?;
        for environment in &mut environments {
            self.try_bring_up_to_date(codebase, environment).await;
        }
        Ok(environments)
    }

    /// Returns the environment that a name means: by its record, or by the branch that is checked out there.
    pub async fn find_environment(&self, codebase: &Codebase, name: &str) -> Result<Environment, EnvironmentError> {
        let recorded = self.store.list_environments(codebase.id, false).await?;
        if let Ok(found) = find_by_name(name, &recorded) {
            let mut found = found.clone();
            self.try_bring_up_to_date(codebase, &mut found).await;
            // Its branch may have been renamed, and the name may belong to another environment now.
            if find_by_name(name, std::slice::from_ref(&found)).is_ok() {
                return Ok(found);
            }
        }
        let all = self.current_environments(codebase, false).await?;
        match find_by_name(name, &all) {
            Err(error @ EnvironmentError::NoSuch(_)) => {
                let Ok(branch) = BranchName::parse(name) else { return Err(error) };
                for environment in all.iter().filter(|environment| self.is_here(environment)) {
                    let now = self.provider.checked_out(codebase, &environment.path).await;
                    if now.is_ok_and(|now| now.is_some_and(|now| now.is_on(&branch))) {
                        return Ok(environment.clone());
                    }
                }
                Err(error)
            }
            found => found.cloned(),
        }
    }

    /// Returns what is checked out in an environment instead of its recorded branch; `None` if it is the
    /// recorded one, or if the worktree does not exist.
    pub(crate) async fn checked_out_instead(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Option<CheckedOut>, EnvironmentError> {
        let now = self.provider.checked_out(codebase, &environment.path).await?;
        Ok(now.filter(|now| !now.is_on(&environment.branch)))
    }

    /// Returns the branch that a command is about: the recorded one while it is checked out, otherwise the
    /// one that was named, if it is one of the two.
    pub(crate) async fn chosen_branch(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        named: Option<&BranchName>,
    ) -> Result<BranchName, EnvironmentError> {
        let recorded = &environment.branch;
        let now = self.checked_out_instead(codebase, environment).await?;
        match (named, &now) {
            (None, None) => Ok(recorded.clone()),
            (Some(named), _) if named == recorded => Ok(named.clone()),
            (Some(named), Some(now)) if now.is_on(named) => Ok(named.clone()),
            _ => {
                let now = now.unwrap_or_else(|| CheckedOut::Branch(recorded.clone()));
                let named = named.cloned();
                Err(EnvironmentError::Integrate(IntegrateError::OtherBranch {
                    recorded: recorded.clone(),
                    now: Box::new(now),
                    named,
                }))
            }
        }
    }

    /// Returns the commit that is checked out in an environment; if the worktree does not exist, the commit
    /// of its branch.
    pub async fn head_commit(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Option<CommitSha>, EnvironmentError> {
        let repo = self.open_repository(codebase);
        let now = if self.is_here(environment) {
            self.provider.checked_out(codebase, &environment.path).await?
        } else {
            None
        };
        let branch = match now {
            Some(CheckedOut::Detached(at)) => return Ok(Some(at)),
            Some(CheckedOut::Branch(branch)) => branch,
            None => environment.branch.clone(),
        };
        Ok(repo.commit_of(&branch.full_ref()).await?)
    }

    /// Tells whether an environment can have a checkout on this machine.
    pub(crate) fn is_here(&self, environment: &Environment) -> bool {
        environment.node == self.node && matches!(environment.status, Status::Active | Status::Failed | Status::Merging)
    }

    /// Updates the record from what is checked out in an environment. If that cannot be read, the recorded
    /// state is shown with git's error.
    async fn try_bring_up_to_date(&self, codebase: &Codebase, environment: &mut Environment) {
        if !self.is_here(environment) {
            return;
        }
        if let Err(error) = self.bring_up_to_date(codebase, &self.open_repository(codebase), environment).await {
            tracing::debug!(environment = %environment.id, "what is checked out is not known: {error}");
        }
    }

    async fn bring_up_to_date(
        &self,
        codebase: &Codebase,
        repo: &Repository,
        environment: &mut Environment,
    ) -> Result<(), EnvironmentError> {
        if let Some(CheckedOut::Branch(now)) = self.provider.checked_out(codebase, &environment.path).await?
            && now != environment.branch
            && repo.was_renamed(&environment.branch, &now).await?
            && self.store.follow_branch(environment.id, &environment.branch, &now).await?
        {
            tracing::info!(environment = %environment.id, from = %environment.branch, to = %now, "branch renamed");
            environment.branch = now;
            if let Err(error) = mirror::write_mirror(codebase, environment) {
                tracing::warn!(environment = %environment.id, "its mirror could not be written: {error}");
            }
        }
        if environment.status == Status::Failed && self.conflict_is_resolved(repo, environment).await? {
            self.end_failure(environment).await?;
        }
        Ok(())
    }

    /// Tells whether an environment failed because its work conflicted with its base, and no longer does.
    async fn conflict_is_resolved(
        &self,
        repo: &Repository,
        environment: &Environment,
    ) -> Result<bool, EnvironmentError> {
        let (false, Some(base)) = (init_failed(environment), &environment.base_ref) else { return Ok(false) };
        let Some(tip) = repo.commit_of(&environment.branch.full_ref()).await? else { return Ok(false) };
        let conflicts = would_conflict(repo, &environment.branch, &tip, base).await;
        conflicts
            .map(|conflicts| !conflicts)
            .map_err(|error| EnvironmentError::Integrate(IntegrateError::Finish(Box::new(error))))
    }

    /// Ends a failed merge: an operation has succeeded since.
    pub(crate) async fn end_failure(&self, environment: &mut Environment) -> Result<(), EnvironmentError> {
        if environment.status == Status::Failed && !init_failed(environment) {
            self.store.advance_status(environment.id, Status::Failed, Status::Active, None).await?;
            (environment.status, environment.error) = (Status::Active, None);
        }
        Ok(())
    }
}

/// Tells whether an environment failed in its init script; only running the script again can fix that.
pub(crate) fn init_failed(environment: &Environment) -> bool {
    let status = environment.metadata.init_script.as_ref().and_then(|init| init.status);
    status == Some(InitStatus::Failed)
}
