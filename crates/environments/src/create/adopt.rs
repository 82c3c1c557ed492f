//! Taking over worktrees that somebody else made, and listing those that nobody has.

use std::path::Path;

use grove_git::Repository;
use grove_git::base::{BaseWish, FetchPolicy, choose_remote};
use grove_model::{AdoptedFrom, BranchName, Codebase, Work};
use grove_store::{Adopted, Claim, NewEnvironment};

use crate::create::{CreatedBy, Hints, How, Outcome, Tried, Wish, decide};
use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::mirror;
use crate::provider::Found;

impl Isolation {
    /// Takes the worktree at `path` over by name, for the work given or for a task named after its
    /// branch.
    pub async fn adopt(
        &self,
        codebase: &Codebase,
        path: &Path,
        work: Option<Work>,
        by: CreatedBy,
    ) -> Result<Outcome, IsolationError> {
        let real = path.canonicalize().map_err(|_| IsolationError::NotAdoptable { path: path.to_owned() })?;
        let environments = self.store.environments(codebase.id, false).await?;
        if let Some(known) = environments.into_iter().find(|environment| environment.path == real) {
            return Ok(Outcome { environment: known, how: How::Used, stale_reference: false });
        }
        let not_ours = || IsolationError::NotAdoptable { path: real.clone() };
        let found = self.provider.adopt(codebase, &real).await?.ok_or_else(not_ours)?;
        let on_no_branch = || IsolationError::OnNoBranch { path: real.clone() };
        let branch = found.branch.as_deref().ok_or_else(on_no_branch)?;
        let branch = BranchName::parse(branch).map_err(|error| IsolationError::Work(error.into()))?;
        let work = work.map_or_else(|| Work::task(branch.as_str()), Ok)?;
        let wish = Wish { work, branch: None, from: None, hints: Hints::default(), conversation: None, by };
        let new = self.new_row(codebase, &wish, branch, real);
        match self.take_over_row(codebase, new, &found, AdoptedFrom::Path, false).await? {
            Claim::Won(environment) => {
                Ok(Outcome { environment, how: How::Adopted(AdoptedFrom::Path), stale_reference: false })
            }
            Claim::Held(holder) => {
                Err(IsolationError::Held { work: holder.work.to_string(), branch: holder.branch, path: holder.path })
            }
        }
    }

    /// Records a worktree of others as an environment. Nothing on disk changes but our own mirror.
    pub(super) async fn take_over_row(
        &self,
        codebase: &Codebase,
        new: NewEnvironment,
        found: &Found,
        from: AdoptedFrom,
        migrated: bool,
    ) -> Result<Claim, IsolationError> {
        let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
        let remotes = repo.remotes().await?;
        let remote = choose_remote(self.settings.remote(), &remotes).unwrap_or_default();
        let wish = BaseWish {
            explicit: None,
            setting: self.settings.base_branch(),
            recorded: codebase.default_branch.as_deref(),
        };
        let base = repo.base(&wish, remote.as_deref(), FetchPolicy::Never, None).await.ok();
        let base = base.map(|(base, _)| (base.name, base.sha));
        let adopted = Adopted { from, base, head: found.head.clone(), migrated };
        // Its own branch, which may be another spelling of the one that was wanted.
        let branch = found.branch.as_deref().and_then(|name| BranchName::parse(name).ok()).unwrap_or(new.branch);
        let new = NewEnvironment { path: found.path.clone(), branch, ..new };
        let claim = self.store.adopt(&new, &adopted).await?;
        if let Claim::Won(environment) = &claim
            && let Err(error) = mirror::write(codebase, environment)
        {
            tracing::warn!(environment = %environment.id, "the mirror could not be written: {error}");
        }
        Ok(claim)
    }

    /// The worktree that an older kind of record names, taken into this one.
    pub(super) async fn take_over_legacy(
        &self,
        codebase: &Codebase,
        wish: &Wish,
        new: &NewEnvironment,
        steps: &mut Vec<decide::Step>,
    ) -> Result<Option<Tried>, IsolationError> {
        let Some(path) = &wish.hints.legacy_path else { return Ok(None) };
        let candidate = format!("legacy path {}", path.display());
        let found = self.provider.adopt(codebase, path).await?.filter(|found| found.branch.is_some());
        // The line that said that nothing but a new one was left comes last again.
        let last = steps.pop();
        let mut step = |outcome: &str, reason: &str| {
            steps.push(decide::Step { candidate: candidate.clone(), outcome: outcome.into(), reason: reason.into() });
        };
        let Some(found) = found else {
            step("skipped", "it is not a worktree of this codebase");
            steps.extend(last);
            return Ok(None);
        };
        step("chosen", "an older record names it");
        match self.take_over_row(codebase, new.clone(), &found, AdoptedFrom::Path, true).await? {
            Claim::Won(environment) => {
                Ok(Some(self.chosen(environment, How::Adopted(AdoptedFrom::Path), steps).await?))
            }
            Claim::Held(holder) => self.when_held(holder, wish, codebase, steps).await.map(Some),
        }
    }

    /// Worktrees of a codebase that no record knows.
    pub async fn orphans(&self, codebase: &Codebase) -> Result<Vec<Found>, IsolationError> {
        let ours = self.store.environments(codebase.id, false).await?;
        let listed = self.provider.list(codebase).await?;
        Ok(listed.into_iter().filter(|found| !ours.iter().any(|e| e.path == found.path)).collect())
    }
}
