//! Approvals: a script runs only if a person approved its content for this codebase.

use grove_git::base::FetchPolicy;
use grove_model::{Codebase, Environment};

use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::init::script::{InitScriptFile, find_init_script};

/// A script that waits for approval.
#[derive(Clone, Debug)]
pub struct PendingApproval {
    pub script: InitScriptFile,
    /// The content that was approved last, if another one was.
    pub approved_before: Option<String>,
    /// The environments that wait for it.
    pub environments: Vec<Environment>,
}

impl Environments {
    /// Tells whether a script's content is approved for a codebase.
    pub(crate) async fn is_approved(
        &self,
        codebase: &Codebase,
        script: &InitScriptFile,
    ) -> Result<bool, EnvironmentError> {
        Ok(self.store.is_approved(codebase.id, script.path, &script.hash).await?)
    }

    /// Returns the scripts of a codebase that wait for approval: that of its base branch, and those of
    /// environments that have not run theirs.
    pub async fn pending_approvals(&self, codebase: &Codebase) -> Result<Vec<PendingApproval>, EnvironmentError> {
        let repo = self.open_repository(codebase);
        let mut pending: Vec<PendingApproval> = Vec::new();
        let mut add = async |script: InitScriptFile, environment: Option<Environment>| {
            if self.is_approved(codebase, &script).await? {
                return Ok::<_, EnvironmentError>(());
            }
            match pending.iter_mut().find(|known| known.script == script) {
                Some(known) => known.environments.extend(environment),
                None => {
                    let approved_before = self.store.last_approved(codebase.id, script.path).await?;
                    pending.push(PendingApproval {
                        script,
                        approved_before,
                        environments: environment.into_iter().collect(),
                    });
                }
            }
            Ok(())
        };
        // Without a base there is no script.
        if let Ok(base) = self.resolve_base(codebase, Some(FetchPolicy::Never)).await
            && let Some(script) = find_init_script(&repo, &base.sha).await?
        {
            add(script, None).await?;
        }
        for environment in self.store.list_environments(codebase.id, false).await? {
            let waits = environment.metadata.init_script.as_ref().is_some_and(|init| !init.ran);
            let Some(base) = environment.base_sha.clone().filter(|_| waits) else { continue };
            if let Some(script) = find_init_script(&repo, &base).await? {
                add(script, Some(environment)).await?;
            }
        }
        Ok(pending)
    }

    /// Approves a script's content.
    pub async fn approve_script(
        &self,
        codebase: &Codebase,
        script: &InitScriptFile,
        by: Option<&str>,
    ) -> Result<(), EnvironmentError> {
        let content = String::from_utf8_lossy(&script.content);
        self.store.approve(codebase.id, script.path, &script.hash, &content, by).await?;
        tracing::info!(codebase = codebase.name, script = script.path, hash = script.hash, "init script approved");
        Ok(())
    }
}
