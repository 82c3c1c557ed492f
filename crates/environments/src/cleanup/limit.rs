//! Makes room for one more environment.

use grove_model::{Codebase, Environment, Moment, Status};
use jiff::SignedDuration;

use crate::cleanup::select::{CleanupChoice, CleanupReason, CleanupRules, CleanupScope};
use crate::cleanup::{CleanupReport, choose_with_disk_check};
use crate::environments::Environments;
use crate::error::{CreateError, EnvironmentError, WorktreeLimit};
use crate::inspect::merge_status::MergeStatus;
use crate::remove::RemovalRequester;

/// The time since the last activity after which an untouched environment may go.
const MIN_UNTOUCHED_AGE: SignedDuration = SignedDuration::from_hours(1);

/// Tells whether an environment counts towards the limit: it is on disk, and ours.
fn takes_a_place(environment: &Environment) -> bool {
    !environment.is_adopted() && !matches!(environment.status, Status::Hibernated | Status::Destroyed)
}

impl Environments {
    /// Makes room where the limit is reached: merged environments are removed, then untouched ones without
    /// activity in the last hour, then stale ones hibernate. `cleanup.grace` protects young ones. If all that
    /// is not enough, the creation is refused.
    pub(crate) async fn make_room(&self, codebase: &Codebase) -> Result<(), EnvironmentError> {
        let limit = self.settings.current().max_worktrees();
        let places = async || {
            let all = self.store.list_environments(codebase.id, false).await?;
            Ok::<_, EnvironmentError>(all.into_iter().filter(takes_a_place).collect::<Vec<_>>())
        };
        let taken = places().await?;
        if (taken.len() as u64) < limit {
            return Ok(());
        }
        let now = Moment::now();
        let (steady, grace) = (self.clock_is_steady(now).await?, self.grace_period(now));
        let rules = CleanupRules { scope: CleanupScope::Merged, steady, grace };
        let merged = self.clean_by(&rules, &RemovalRequester::Person, codebase, false, &|_, _| {}).await?;
        log_removed_count(&merged);
        let mut taken = places().await?;
        if (taken.len() as u64) < limit {
            return Ok(());
        }
        let statuses = self.merge_statuses(codebase, &taken, now).await?;
        let last_active = |e: &Environment| statuses.get(&e.id).map(|merge_status| merge_status.last_active);
        // The environment that was unused for the longest time comes first.
        taken.sort_by_key(last_active);
        let idle = |e: &&Environment| last_active(e).is_some_and(|at| now.duration_since(at) >= MIN_UNTOUCHED_AGE);
        for environment in taken.iter().filter(|_| steady).filter(idle) {
            match self.remove_untouched(codebase, environment, RemovalRequester::Person).await {
                Ok(None) => {}
                Ok(Some(_)) => {
                    tracing::info!(environment = %environment.id, "an untouched environment made room");
                    if (places().await?.len() as u64) < limit {
                        return Ok(());
                    }
                }
                Err(error) => tracing::warn!(environment = %environment.id, %error, "not removed"),
            }
        }
        let mut taken = places().await?;
        taken.sort_by_key(last_active);
        let rules = CleanupRules { scope: CleanupScope::Stale, steady, grace };
        for environment in taken.clone() {
            let Some(merge_status) = statuses.get(&environment.id) else { continue };
            if choose_with_disk_check(&environment, merge_status, &rules).await
                != CleanupChoice::Remove(CleanupReason::Stale)
            {
                continue;
            }
            match self.hibernate_environment(codebase, &environment).await {
                Ok(_) => {
                    taken = places().await?;
                    if (taken.len() as u64) < limit {
                        return Ok(());
                    }
                }
                Err(error) => tracing::warn!(environment = %environment.id, %error, "not hibernated"),
            }
        }
        let merged = |e: &&Environment| statuses.get(&e.id).is_some_and(MergeStatus::is_merged);
        let idle = |e: &&Environment| statuses.get(&e.id).is_some_and(|merge_status| merge_status.stale);
        let merged_count = taken.iter().filter(merged).count();
        let stale_count = taken.iter().filter(|e| !merged(e) && idle(e)).count();
        Err(EnvironmentError::Create(CreateError::Full(Box::new(WorktreeLimit {
            codebase: codebase.name.clone(),
            limit: taken.len() as u64,
            merged: merged_count,
            stale: stale_count,
            active: taken.len() - merged_count - stale_count,
            stale_days: self.settings.current().stale_days(),
        }))))
    }
}

fn log_removed_count(report: &CleanupReport) {
    if !report.removed.is_empty() {
        tracing::info!("{} merged environments made room", report.removed.len());
    }
}
