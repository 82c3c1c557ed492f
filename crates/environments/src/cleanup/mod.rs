//! Removes environments when git says that their work is finished, or when they have been unused for long.
//!
//! This is separate from the code that creates and chooses environments. A pure function ([`select`]) selects
//! the environments to remove; each is removed by the rules of [`crate::remove`], so that nothing is lost
//! whatever was selected. A removal that fails never stops the rest.

mod clock;
mod limit;
pub mod on_close;
pub mod select;
mod untouched;

use std::collections::BTreeSet;
use std::path::Path;

use grove_git::RemoteOptions;
use grove_git::refresh::OutdatedBase;
use grove_git::verdict::BranchTips;
use grove_model::{Codebase, Environment, Moment};
use jiff::SignedDuration;
use select::{
    CleanupChoice, CleanupReason, CleanupRules, CleanupScope, GracePeriod, SparedReason, choose_cleanup_action,
};
use serde::Serialize;

use crate::environments::{Environments, with_repository_settings};
use crate::error::{EnvironmentError, RefusedAction};
use crate::inspect::merge_status::{MergeStatus, last_change};
use crate::lease::this_process;
use crate::problem::Problem;
use crate::remove::{BranchPolicy, RemovalPlan, RemovalRequester, RemoveOptions};

/// The result of a clean-up, or of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CleanupReport {
    pub removed: Vec<CleanedEnvironment>,
    pub skipped: Vec<SkippedEnvironment>,
    pub failed: Vec<FailedCleanup>,
    /// Bases that were judged by their last known state, since their remote did not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CleanedEnvironment {
    pub id: String,
    pub branch: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedEnvironment {
    pub id: String,
    pub branch: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedCleanup {
    pub id: String,
    pub branch: String,
    pub error: String,
}

impl CleanupReport {
    pub fn append_report(&mut self, mut other: CleanupReport) {
        self.removed.append(&mut other.removed);
        self.skipped.append(&mut other.skipped);
        self.failed.append(&mut other.failed);
        self.warnings.append(&mut other.warnings);
    }
}

/// The lease of a cycle. After this time, a cycle that was interrupted no longer blocks the next one.
const CLEANUP_LEASE_DURATION: SignedDuration = SignedDuration::from_mins(30);

/// Is called after each environment, for people who wait.
pub type CleanupProgress<'a> = &'a (dyn Fn(usize, usize) + Sync);

impl Environments {
    /// Runs the clean-up of the scheduler: everything in scope, one cycle at a time for each codebase,
    /// whichever process starts it. Returns `None` if another process is running it.
    pub async fn run_scheduled(
        &self,
        codebase: &Codebase,
        dry_run: bool,
        progress: CleanupProgress<'_>,
    ) -> Result<Option<CleanupReport>, EnvironmentError> {
        let name = format!("cleanup {} {}", codebase.id, self.node);
        let until = Moment::now().add_duration(CLEANUP_LEASE_DURATION);
        let Some(lease) = self.store.take_lease(&name, this_process(), until).await? else { return Ok(None) };
        let report =
            self.clean_up_for(&RemovalRequester::Person, codebase, CleanupScope::Everything, dry_run, progress).await;
        self.store.end_lease(&name, &lease).await?;
        report.map(Some)
    }

    /// Runs one cycle over a codebase: removes what is in scope and, if everything is in scope, expired
    /// trash.
    pub async fn clean_up(
        &self,
        codebase: &Codebase,
        scope: CleanupScope,
        dry_run: bool,
        progress: CleanupProgress<'_>,
    ) -> Result<CleanupReport, EnvironmentError> {
        self.clean_up_for(&RemovalRequester::Person, codebase, scope, dry_run, progress).await
    }

    /// Runs one cycle over a codebase, as [`Self::clean_up`] does, on behalf of `requester`.
    #[tracing::instrument(name = "cleanup", skip_all, fields(codebase = codebase.name, ?scope, dry_run))]
    pub async fn clean_up_for(
        &self,
        requester: &RemovalRequester,
        codebase: &Codebase,
        scope: CleanupScope,
        dry_run: bool,
        progress: CleanupProgress<'_>,
    ) -> Result<CleanupReport, EnvironmentError> {
        let now = Moment::now();
        let grace = self.grace_period(now).filter(|_| scope == CleanupScope::Everything);
        // Only a decision by age needs the clock; a dry run does not store a clock reading.
        let steady = match (scope, dry_run) {
            (CleanupScope::Merged, _) => true,
            (_, true) => self.clock_seems_steady(now).await?,
            (_, false) => self.clock_is_steady(now).await?,
        };
        if !steady {
            tracing::warn!("the clock jumped since the last clean-up: nothing counts as old or expired this time");
        }
        let rules = CleanupRules { scope, steady, grace };
        let report = self.clean_by(&rules, requester, codebase, dry_run, progress).await?;
        if scope == CleanupScope::Everything && !dry_run {
            self.measure_environments(codebase, &self.environments_here(codebase).await?).await;
        }
        if scope == CleanupScope::Everything && steady && !dry_run {
            let swept = self.sweep_trash(codebase, now).await?;
            if !swept.expired.is_empty() {
                tracing::info!("{} environments left the trash for good", swept.expired.len());
            }
        }
        Ok(report)
    }

    /// Returns the period that protects environments from automatic removal; `None` if there is none.
    fn grace_period(&self, now: Moment) -> Option<GracePeriod> {
        let length = self.settings.current().cleanup_grace();
        (!length.is_zero()).then_some(GracePeriod { now, length })
    }

    async fn environments_here(&self, codebase: &Codebase) -> Result<Vec<Environment>, EnvironmentError> {
        let all = self.current_environments(codebase, false).await?;
        Ok(all.into_iter().filter(|environment| environment.node == self.node).collect())
    }

    /// Removes the environments that the rules choose.
    async fn clean_by(
        &self,
        rules: &CleanupRules,
        requester: &RemovalRequester,
        codebase: &Codebase,
        dry_run: bool,
        progress: CleanupProgress<'_>,
    ) -> Result<CleanupReport, EnvironmentError> {
        let here = self.environments_here(codebase).await?;
        let mut report = CleanupReport::default();
        if rules.scope != CleanupScope::Stale {
            let outdated = self.refresh_bases(codebase, &here).await?;
            report.warnings = outdated.iter().map(ToString::to_string).collect();
        }
        let statuses = self.merge_statuses(codebase, &here, Moment::now()).await?;
        for (done, environment) in here.iter().enumerate() {
            progress(done, here.len());
            let Some(merge_status) = statuses.get(&environment.id) else { continue };
            match choose_with_disk_check(environment, merge_status, rules).await {
                CleanupChoice::Leave => {}
                CleanupChoice::Spare(spared) => report.skipped.push(SkippedEnvironment {
                    id: environment.id.to_string(),
                    branch: environment.branch.to_string(),
                    reason: spared.to_string(),
                }),
                CleanupChoice::Remove(why) => {
                    let options = RemoveOptions {
                        branch: branch_policy(Some(merge_status)),
                        requester: requester.clone(),
                        ..RemoveOptions::default()
                    };
                    self.clean_one(codebase, environment, &options, why, dry_run, &mut report).await;
                }
            }
        }
        progress(here.len(), here.len());
        Ok(report)
    }

    /// Asks the remotes for the current bases, as `worktree.fetch` says.
    async fn refresh_bases(
        &self,
        codebase: &Codebase,
        environments: &[Environment],
    ) -> Result<Vec<OutdatedBase>, EnvironmentError> {
        let bases: BTreeSet<&str> = environments.iter().filter_map(|one| one.base_ref.as_deref()).collect();
        let repo = self.open_repository(codebase);
        let settings =
            with_repository_settings(&repo, &self.settings.current(), codebase.default_branch.as_deref()).await?;
        let repo = repo.with_remote_options(RemoteOptions {
            fetch_timeout: Some(settings.fetch_timeout()),
            ..RemoteOptions::default()
        });
        let tips = match BranchTips::load_tips(&repo).await {
            Ok(tips) => tips,
            // No environment will be found merged.
            Err(error) => {
                tracing::warn!(codebase = codebase.name, "its branches cannot be listed: {error}");
                return Ok(Vec::new());
            }
        };
        Ok(repo.refresh_bases(&tips, &bases, settings.fetch_policy()).await?)
    }

    async fn clean_one(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        options: &RemoveOptions,
        why: CleanupReason,
        dry_run: bool,
        report: &mut CleanupReport,
    ) {
        let (id, branch) = (environment.id.to_string(), environment.branch.to_string());
        let outcome = if dry_run {
            self.would_go(codebase, environment, &options.requester).await
        } else {
            self.remove_environment(codebase, environment, options).await.map(|_| None)
        };
        match outcome {
            Ok(None) => {
                tracing::info!(environment = %id, %branch, "cleaned up: {why}");
                report.removed.push(CleanedEnvironment { id, branch });
            }
            Ok(Some(reason)) => report.skipped.push(SkippedEnvironment { id, branch, reason }),
            Err(
                error @ (EnvironmentError::Refused(_)
                | EnvironmentError::NotMounted(_)
                | EnvironmentError::InTheMaking { .. }),
            ) => {
                report.skipped.push(SkippedEnvironment { id, branch, reason: reason_of(error) });
            }
            Err(error) => {
                let error = Problem::from(error).message;
                tracing::warn!(environment = %id, %branch, "not cleaned up: {error}");
                report.failed.push(FailedCleanup { id, branch, error: error.to_string() });
            }
        }
    }

    /// Returns the reasons against the removal, if there are any.
    async fn would_go(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        requester: &RemovalRequester,
    ) -> Result<Option<String>, EnvironmentError> {
        Ok(match self.plan_reasons(codebase, environment, requester).await? {
            RemovalPlan::Gone | RemovalPlan::Release => None,
            RemovalPlan::Remove(removable) => {
                let reasons = removable.blocking_reasons(false);
                (!reasons.is_empty())
                    .then(|| reason_of(self.refusal_error(RefusedAction::Remove, environment.clone(), reasons)))
            }
        })
    }
}

/// Chooses an action after a look at the disk. Only the files of an environment that is to be removed are
/// read.
async fn choose_with_disk_check(
    environment: &Environment,
    merge_status: &MergeStatus,
    rules: &CleanupRules,
) -> CleanupChoice {
    let is_gone = !environment.path.exists() && environment.path.parent().is_some_and(Path::exists);
    let choice = choose_cleanup_action(environment, is_gone, merge_status, rules);
    let (CleanupChoice::Remove(CleanupReason::Merged(_) | CleanupReason::Stale), Some(grace)) = (choice, rules.grace)
    else {
        return choice;
    };
    let path = environment.path.clone();
    match tokio::task::spawn_blocking(move || last_change(&path)).await {
        Ok(Some(changed)) if grace.protects_since(changed) => CleanupChoice::Spare(SparedReason::Recent(grace.length)),
        Ok(Some(_)) => choice,
        Ok(None) | Err(_) => CleanupChoice::Spare(SparedReason::Unreadable),
    }
}

/// Returns the branch policy: a commit that is proven to be in the base lets its branch be deleted.
fn branch_policy(merge_status: Option<&MergeStatus>) -> BranchPolicy {
    let merged =
        merge_status.filter(|merge_status| merge_status.is_merged()).and_then(|merge_status| merge_status.head.clone());
    merged.map_or(BranchPolicy::ByRule, BranchPolicy::Merged)
}

/// Returns every reason against the removal in one line.
fn reason_of(error: EnvironmentError) -> String {
    let problem = Problem::from(error);
    if problem.reasons.is_empty() {
        return problem.message.to_string();
    }
    let all: Vec<&str> = problem.reasons.iter().map(|reason| reason.message.as_str()).collect();
    all.join(" ")
}
