//! Environments as they are now: what is checked out there counts, not what was recorded.
//!
//! A renamed branch is followed. Where another branch is checked out, or none, the record stays and each
//! command decides what that means for it.

use grove_git::Repository;
use grove_git::checked_out::CheckedOut;
use grove_git::finish::would_conflict;
use grove_model::{BranchName, Codebase, CommitSha, Environment, InitStatus, Status};

use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::inspect::find::find;
use crate::mirror;

impl Isolation {
    /// The environments of a codebase, with renamed branches followed and failures ended whose cause is
    /// gone; `all` includes those destroyed.
    pub async fn current_environments(
        &self,
        codebase: &Codebase,
        all: bool,
    ) -> Result<Vec<Environment>, IsolationError> {
        let mut environments = self.store.environments(codebase.id, all).await?;
        for environment in &mut environments {
            self.try_bring_up_to_date(codebase, environment).await;
        }
        Ok(environments)
    }

    /// The environment that a name means: as it is recorded, or by the branch that is checked out there.
    pub async fn find_environment(&self, codebase: &Codebase, name: &str) -> Result<Environment, IsolationError> {
        let recorded = self.store.environments(codebase.id, false).await?;
        if let Ok(found) = find(name, &recorded) {
            let mut found = found.clone();
            self.try_bring_up_to_date(codebase, &mut found).await;
            // Its branch may have been renamed, and the name be another one's now.
            if find(name, std::slice::from_ref(&found)).is_ok() {
                return Ok(found);
            }
        }
        let all = self.current_environments(codebase, false).await?;
        match find(name, &all) {
            Err(error @ IsolationError::NoSuch(_)) => {
                let Ok(branch) = BranchName::parse(name) else { return Err(error) };
                let repo = self.repository(codebase);
                for environment in all.iter().filter(|environment| self.is_here(environment)) {
                    let now = repo.checked_out(&environment.path).await;
                    if now.is_ok_and(|now| now.is_some_and(|now| now.is_on(&branch))) {
                        return Ok(environment.clone());
                    }
                }
                Err(error)
            }
            found => found.cloned(),
        }
    }

    /// What is checked out in an environment instead of its recorded branch; `None` where it is that one,
    /// or where nothing is there.
    pub(crate) async fn checked_out_instead(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Option<CheckedOut>, IsolationError> {
        let now = self.repository(codebase).checked_out(&environment.path).await?;
        Ok(now.filter(|now| !now.is_on(&environment.branch)))
    }

    /// The branch that a command is about: the recorded one while it is checked out, otherwise the one
    /// that was named, if it is one of the two.
    pub(crate) async fn chosen_branch(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        named: Option<&BranchName>,
    ) -> Result<BranchName, IsolationError> {
        let recorded = &environment.branch;
        let now = self.checked_out_instead(codebase, environment).await?;
        match (named, &now) {
            (None, None) => Ok(recorded.clone()),
            (Some(named), _) if named == recorded => Ok(named.clone()),
            (Some(named), Some(now)) if now.is_on(named) => Ok(named.clone()),
            _ => {
                let now = now.unwrap_or_else(|| CheckedOut::Branch(recorded.clone()));
                let named = named.cloned();
                Err(IsolationError::OtherBranch { recorded: recorded.clone(), now: Box::new(now), named })
            }
        }
    }

    /// The commit that is checked out in an environment; where nothing is there, the one that its branch
    /// is at.
    pub async fn tip(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Option<CommitSha>, IsolationError> {
        let repo = self.repository(codebase);
        let now = if self.is_here(environment) { repo.checked_out(&environment.path).await? } else { None };
        let branch = match now {
            Some(CheckedOut::Detached(at)) => return Ok(Some(at)),
            Some(CheckedOut::Branch(branch)) => branch,
            None => environment.branch.clone(),
        };
        Ok(repo.commit_of(&branch.full_ref()).await?)
    }

    /// Whether something can be checked out in an environment on this machine.
    pub(crate) fn is_here(&self, environment: &Environment) -> bool {
        environment.node == self.node && matches!(environment.status, Status::Active | Status::Failed | Status::Merging)
    }

    /// Takes what is checked out in an environment into its record. Where that cannot be found out, what
    /// is recorded is shown, with what git says of it.
    async fn try_bring_up_to_date(&self, codebase: &Codebase, environment: &mut Environment) {
        if !self.is_here(environment) {
            return;
        }
        if let Err(error) = self.bring_up_to_date(codebase, &self.repository(codebase), environment).await {
            tracing::debug!(environment = %environment.id, "what is checked out is not known: {error}");
        }
    }

    async fn bring_up_to_date(
        &self,
        codebase: &Codebase,
        repo: &Repository,
        environment: &mut Environment,
    ) -> Result<(), IsolationError> {
        if let Some(CheckedOut::Branch(now)) = repo.checked_out(&environment.path).await?
            && now != environment.branch
            && repo.was_renamed(&environment.branch, &now).await?
            && self.store.follow_branch(environment.id, &environment.branch, &now).await?
        {
            tracing::info!(environment = %environment.id, from = %environment.branch, to = %now, "branch renamed");
            environment.branch = now;
            if let Err(error) = mirror::write(codebase, environment) {
                tracing::warn!(environment = %environment.id, "its mirror could not be written: {error}");
            }
        }
        if environment.status == Status::Failed && self.conflict_is_resolved(repo, environment).await? {
            self.end_failure(environment).await?;
        }
        Ok(())
    }

    /// Whether an environment failed because its work conflicted with its base, and does not any more.
    async fn conflict_is_resolved(&self, repo: &Repository, environment: &Environment) -> Result<bool, IsolationError> {
        let (false, Some(base)) = (init_failed(environment), &environment.base_ref) else { return Ok(false) };
        let Some(tip) = repo.commit_of(&environment.branch.full_ref()).await? else { return Ok(false) };
        let conflicts = would_conflict(repo, &environment.branch, &tip, base).await;
        conflicts.map(|conflicts| !conflicts).map_err(|error| IsolationError::Finish(Box::new(error)))
    }

    /// A failed merge is over: something succeeded since.
    pub(crate) async fn end_failure(&self, environment: &mut Environment) -> Result<(), IsolationError> {
        if environment.status == Status::Failed && !init_failed(environment) {
            self.store.advance(environment.id, Status::Failed, Status::Active, None).await?;
            (environment.status, environment.error) = (Status::Active, None);
        }
        Ok(())
    }
}

/// Whether an environment failed in its init script, which only running it again can mend.
pub(crate) fn init_failed(environment: &Environment) -> bool {
    let status = environment.metadata.init_script.as_ref().and_then(|init| init.status);
    status == Some(InitStatus::Failed)
}
