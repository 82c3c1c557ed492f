//! Makes room for one more environment.

use grove_model::{Codebase, Environment, Moment, Status};

use crate::cleanup::select::{CleanupChoice, CleanupReason, CleanupRules, CleanupScope};
use crate::cleanup::{CleanupReport, choose_with_disk_check};
use crate::environments::Environments;
use crate::error::{EnvironmentError, WorktreeLimit};
use crate::inspect::merge_status::MergeStatus;
use crate::remove::RemovalRequester;

/// Tells whether an environment counts towards the limit: it is on disk, and ours.
fn takes_a_place(environment: &Environment) -> bool {
    !environment.is_adopted() && !matches!(environment.status, Status::Hibernated | Status::Destroyed)
}

impl Environments {
    /// Makes room where the limit is reached: merged environments are removed, then stale ones hibernate,
    /// except those that `cleanup.grace` protects. If that is not enough, the creation is refused.
    pub(crate) async fn make_room(&self, codebase: &Codebase) -> Result<(), EnvironmentError> {
        let limit = self.settings.max_worktrees();
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
        let rules = CleanupRules { scope: CleanupScope::Stale, steady, grace };
        let standings = self.merge_statuses(codebase, &taken, now).await?;
        let mut stale: Vec<Environment> = Vec::new();
        for environment in &taken {
            let Some(standing) = standings.get(&environment.id) else { continue };
            if choose_with_disk_check(environment, standing, &rules).await
                == CleanupChoice::Remove(CleanupReason::Stale)
            {
                stale.push(environment.clone());
            }
        }
        // The environment that was unused for the longest time comes first.
        stale.sort_by_key(|environment| standings.get(&environment.id).map(|standing| standing.last_active));
        for environment in &stale {
            match self.hibernate_environment(codebase, environment).await {
                Ok(_) => {
                    taken = places().await?;
                    if (taken.len() as u64) < limit {
                        return Ok(());
                    }
                }
                Err(error) => tracing::warn!(environment = %environment.id, "not hibernated: {error}"),
            }
        }
        let merged = |e: &&Environment| standings.get(&e.id).is_some_and(MergeStatus::is_merged);
        let idle = |e: &&Environment| standings.get(&e.id).is_some_and(|standing| standing.stale);
        let merged_count = taken.iter().filter(merged).count();
        let stale_count = taken.iter().filter(|e| !merged(e) && idle(e)).count();
        Err(EnvironmentError::Full(Box::new(WorktreeLimit {
            codebase: codebase.name.clone(),
            limit: taken.len() as u64,
            merged: merged_count,
            stale: stale_count,
            active: taken.len() - merged_count - stale_count,
            stale_days: self.settings.stale_days(),
        })))
    }
}

fn log_removed_count(report: &CleanupReport) {
    if !report.removed.is_empty() {
        tracing::info!("{} merged environments made room", report.removed.len());
    }
}
