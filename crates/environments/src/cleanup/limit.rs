//! Room for one more environment.

use grove_model::{Codebase, Environment, Moment, Status};

use crate::cleanup::select::{Choice, Rules, Scope, Why};
use crate::cleanup::{Report, choose};
use crate::environments::Isolation;
use crate::error::{Full, IsolationError};
use crate::inspect::merge_status::Standing;
use crate::remove::Asker;

/// Whether an environment takes one of the places: on disk, and ours.
fn takes_a_place(environment: &Environment) -> bool {
    !environment.is_adopted() && !matches!(environment.status, Status::Hibernated | Status::Destroyed)
}

impl Isolation {
    /// Makes room where the limit is reached: merged ones go, then stale ones hibernate, but for those
    /// that `cleanup.grace` protects; otherwise nothing is made.
    pub(crate) async fn make_room(&self, codebase: &Codebase) -> Result<(), IsolationError> {
        let limit = self.settings.max_worktrees();
        let places = async || {
            let all = self.store.environments(codebase.id, false).await?;
            Ok::<_, IsolationError>(all.into_iter().filter(takes_a_place).collect::<Vec<_>>())
        };
        let taken = places().await?;
        if (taken.len() as u64) < limit {
            return Ok(());
        }
        let now = Moment::now();
        let (steady, grace) = (self.clock_is_steady(now).await?, self.grace(now));
        let rules = Rules { scope: Scope::Merged, steady, grace };
        let merged = self.clean_by(&rules, &Asker::Person, codebase, false, &|_, _| {}).await?;
        log(&merged);
        let mut taken = places().await?;
        if (taken.len() as u64) < limit {
            return Ok(());
        }
        let rules = Rules { scope: Scope::Stale, steady, grace };
        let standings = self.standings(codebase, &taken, now).await?;
        let mut stale: Vec<Environment> = Vec::new();
        for environment in &taken {
            let Some(standing) = standings.get(&environment.id) else { continue };
            if choose(environment, standing, &rules).await == Choice::Remove(Why::Stale) {
                stale.push(environment.clone());
            }
        }
        // The one that nobody has used for the longest time first.
        stale.sort_by_key(|environment| standings.get(&environment.id).map(|standing| standing.last_active));
        for environment in &stale {
            match self.hibernate(codebase, environment).await {
                Ok(_) => {
                    taken = places().await?;
                    if (taken.len() as u64) < limit {
                        return Ok(());
                    }
                }
                Err(error) => tracing::warn!(environment = %environment.id, "not hibernated: {error}"),
            }
        }
        let merged = |e: &&Environment| standings.get(&e.id).is_some_and(Standing::is_merged);
        let idle = |e: &&Environment| standings.get(&e.id).is_some_and(|standing| standing.stale);
        let merged_count = taken.iter().filter(merged).count();
        let stale_count = taken.iter().filter(|e| !merged(e) && idle(e)).count();
        Err(IsolationError::Full(Box::new(Full {
            codebase: codebase.name.clone(),
            limit: taken.len() as u64,
            merged: merged_count,
            stale: stale_count,
            active: taken.len() - merged_count - stale_count,
            stale_days: self.settings.stale_days(),
        })))
    }
}

fn log(report: &Report) {
    if !report.removed.is_empty() {
        tracing::info!("{} merged environments made room", report.removed.len());
    }
}
