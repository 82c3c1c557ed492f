//! Removes environments in which nothing was done.

use grove_model::{Codebase, Environment, Status};

use crate::environments::Environments;
use crate::error::{EnvironmentError, RemoveError};
use crate::remove::{RemovalPlan, RemovalRequester, RemoveOptions, RemoveOutcome};

impl Environments {
    /// Removes an environment if nothing was done in it since it was created: no commit, no change, no file
    /// beyond those that the creation copied, nothing that runs there or waits for it. Returns `None` if the
    /// environment stays.
    pub async fn remove_untouched(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        requester: RemovalRequester,
    ) -> Result<Option<RemoveOutcome>, EnvironmentError> {
        let Some(created_at) = &environment.base_sha else { return Ok(None) };
        if environment.status != Status::Active || environment.is_adopted() || !self.is_here(environment) {
            return Ok(None);
        }
        let RemovalPlan::Remove(removable) = self.plan_reasons(codebase, environment, &requester).await? else {
            return Ok(None);
        };
        let untouched = removable.blocking_reasons(false).is_empty()
            && self.provider.is_untouched(codebase, environment, &removable.entry, created_at).await?;
        if !untouched {
            return Ok(None);
        }
        // A change since then is found by its fingerprint, and the environment stays.
        let seen = Some(removable.seen_fingerprint().clone());
        let options = RemoveOptions { seen, requester, ..RemoveOptions::default() };
        match self.remove_environment(codebase, environment, &options).await {
            Ok(removed) => Ok(Some(removed)),
            Err(EnvironmentError::Refused(_) | EnvironmentError::Remove(RemoveError::ChangedMeanwhile { .. })) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
