//! Adopts worktrees that another tool or a person made, and lists worktrees without a record.

use std::path::Path;

use grove_git::base::{BasePreference, FetchPolicy, choose_remote};
use grove_model::{AdoptedFrom, BranchName, Codebase, Work};
use grove_store::{AdoptedWorktree, ClaimOutcome, NewEnvironment};

use crate::create::{
    CreateAttempt, CreateHints, CreateMethod, CreateOutcome, CreateRequest, EnvironmentCreator, decide,
};
use crate::environments::Environments;
use crate::error::{CreateError, EnvironmentError};
use crate::mirror;
use crate::provider::FoundEnvironment;

impl Environments {
    /// Adopts the worktree at `path`, for the given work or for a task named after its branch.
    pub async fn adopt_worktree(
        &self,
        codebase: &Codebase,
        path: &Path,
        work: Option<Work>,
        by: EnvironmentCreator,
    ) -> Result<CreateOutcome, EnvironmentError> {
        let real = path
            .canonicalize()
            .map_err(|_| EnvironmentError::Create(CreateError::NotAdoptable { path: path.to_owned() }))?;
        let environments = self.store.list_environments(codebase.id, false).await?;
        if let Some(known) = environments.into_iter().find(|environment| environment.path == real) {
            return Ok(CreateOutcome { environment: known, how: CreateMethod::Used, stale_reference: false });
        }
        let not_ours = || EnvironmentError::Create(CreateError::NotAdoptable { path: real.clone() });
        let found = self.provider.check_adoptable(codebase, &real).await?.ok_or_else(not_ours)?;
        let on_no_branch = || EnvironmentError::Create(CreateError::OnNoBranch { path: real.clone() });
        let branch = found.branch.as_deref().ok_or_else(on_no_branch)?;
        let branch =
            BranchName::parse(branch).map_err(|error| EnvironmentError::Create(CreateError::Work(error.into())))?;
        let work = work.map_or_else(|| Work::for_task(branch.as_str()), Ok)?;
        let request =
            CreateRequest { work, branch: None, from: None, hints: CreateHints::default(), conversation: None, by };
        let new = self.new_row(codebase, &request, branch, real);
        match self.take_over_row(codebase, new, &found, AdoptedFrom::Path, false).await? {
            ClaimOutcome::Won(environment) => {
                Ok(CreateOutcome { environment, how: CreateMethod::Adopted(AdoptedFrom::Path), stale_reference: false })
            }
            ClaimOutcome::Held(holder) => Err(EnvironmentError::Create(CreateError::Held {
                work: holder.work.to_string(),
                branch: holder.branch,
                path: holder.path,
            })),
        }
    }

    /// Records a worktree that another tool or a person made as an environment. On disk, only our own mirror
    /// changes.
    pub(super) async fn take_over_row(
        &self,
        codebase: &Codebase,
        new: NewEnvironment,
        found: &FoundEnvironment,
        from: AdoptedFrom,
        migrated: bool,
    ) -> Result<ClaimOutcome, EnvironmentError> {
        let repo = self.open_repository(codebase);
        let remotes = repo.list_remotes().await?;
        let settings = self.settings.current();
        let remote = choose_remote(settings.remote_name(), &remotes).unwrap_or_default();
        let request = BasePreference {
            explicit: None,
            setting: settings.base_branch(),
            recorded: codebase.default_branch.as_deref(),
        };
        let base = repo.find_base(&request, remote.as_deref(), FetchPolicy::Never, None).await.ok();
        let base = base.map(|(base, _)| (base.name, base.sha));
        let adopted = AdoptedWorktree { from, base, head: found.head.clone(), migrated };
        // The worktree's own branch, which may be spelled differently from the requested one.
        let branch = found.branch.as_deref().and_then(|name| BranchName::parse(name).ok()).unwrap_or(new.branch);
        let new = NewEnvironment { path: found.path.clone(), branch, ..new };
        let claim = self.store.adopt_environment(&new, &adopted).await?;
        if let ClaimOutcome::Won(environment) = &claim
            && let Err(error) = mirror::write_mirror(codebase, environment)
        {
            tracing::warn!(environment = %environment.id, "the mirror could not be written: {error}");
        }
        Ok(claim)
    }

    /// Adopts the worktree that an older kind of record names into this record.
    pub(super) async fn take_over_legacy(
        &self,
        codebase: &Codebase,
        request: &CreateRequest,
        new: &NewEnvironment,
        steps: &mut Vec<decide::DecisionStep>,
    ) -> Result<Option<CreateAttempt>, EnvironmentError> {
        let Some(path) = &request.hints.legacy_path else { return Ok(None) };
        let candidate = format!("legacy path {}", path.display());
        let found = self.provider.check_adoptable(codebase, path).await?.filter(|found| found.branch.is_some());
        // The step that says that only a new environment is left stays the last one.
        let last = steps.pop();
        let mut step = |outcome: &str, reason: &str| {
            steps.push(decide::DecisionStep {
                candidate: candidate.clone(),
                outcome: outcome.into(),
                reason: reason.into(),
            });
        };
        let Some(found) = found else {
            step("skipped", "it is not a worktree of this codebase");
            steps.extend(last);
            return Ok(None);
        };
        step("chosen", "an older record names it");
        match self.take_over_row(codebase, new.clone(), &found, AdoptedFrom::Path, true).await? {
            ClaimOutcome::Won(environment) => {
                Ok(Some(self.record_choice(environment, CreateMethod::Adopted(AdoptedFrom::Path), steps).await?))
            }
            ClaimOutcome::Held(holder) => self.when_held(holder, request, codebase, steps).await.map(Some),
        }
    }

    /// Returns the worktrees of a codebase that have no record.
    pub async fn list_orphan_worktrees(&self, codebase: &Codebase) -> Result<Vec<FoundEnvironment>, EnvironmentError> {
        let ours = self.store.list_environments(codebase.id, false).await?;
        let listed = self.provider.list_environments(codebase).await?;
        Ok(listed.into_iter().filter(|found| !ours.iter().any(|e| e.path == found.path)).collect())
    }
}
