//! The background work of a running server: repairs what a crash left, and cleans up.

use std::time::Duration;

use grove_git::lock::end_orphans;
use grove_model::{Codebase, Moment};
use jiff::SignedDuration;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::environments::Environments;
use crate::error::EnvironmentError;

/// The time for which a platform's event is kept after it was processed, to answer questions about its
/// outcome.
const EVENT_RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The interval at which records, git and disk are reconciled.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Functions that find the processes of runs, so that the scheduler can end those that a killed server left.
#[derive(Clone, Copy)]
pub struct RunProcesses {
    /// Ends the runs whose supervisor is gone; returns the number of processes that it found.
    pub end_unsupervised: fn() -> usize,
    /// Tells whether a process is a supervisor.
    pub is_supervisor: fn(u32) -> bool,
}

impl Environments {
    /// Runs the tasks at start and then at intervals, until `ending` is set. A task that fails is logged and
    /// retried at the next interval.
    pub async fn run_scheduler(&self, processes: RunProcesses, mut ending: watch::Receiver<bool>) {
        let now = Instant::now();
        let mut reconcile = interval_at(now, RECONCILE_INTERVAL);
        let mut clean_up = interval_at(now, self.settings.current().cleanup_interval());
        for interval in [&mut reconcile, &mut clean_up] {
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            tokio::select! {
                biased;
                () = async { drop(ending.wait_for(|ending| *ending).await) } => return,
                _ = reconcile.tick() => self.repair_after_crash(processes).await,
                _ = clean_up.tick() => self.clean_all().await,
            }
        }
    }

    async fn repair_after_crash(&self, processes: RunProcesses) {
        match tokio::task::spawn_blocking(processes.end_unsupervised).await {
            Ok(0) => {}
            Ok(count) => tracing::warn!("ended {count} processes that killed runs had left"),
            Err(error) => tracing::error!("looking for what runs left: {error}"),
        }
        let codebases = match self.store.list_codebases().await {
            Ok(codebases) => codebases,
            Err(error) => return tracing::warn!("nothing was put right: {error}"),
        };
        for codebase in codebases {
            if let Err(error) = self.end_orphans(&codebase, processes).await {
                tracing::warn!(codebase = codebase.name, "what a run left could not be ended: {error}");
            }
            match self.reconcile_codebase(&codebase).await {
                Ok(done) if done.fixes.is_empty() => {}
                Ok(done) => tracing::info!(codebase = codebase.name, "{} things were put right", done.fixes.len()),
                Err(error) => tracing::warn!(codebase = codebase.name, "not put right: {error}"),
            }
        }
    }

    /// Ends processes that an agent started and that no supervisor watches any more.
    async fn end_orphans(&self, codebase: &Codebase, processes: RunProcesses) -> Result<(), EnvironmentError> {
        for environment in self.store.list_environments(codebase.id, false).await? {
            if environment.node != self.node {
                continue;
            }
            let (common_dir, id) = (codebase.git_common_dir.clone(), environment.id);
            let end_processes = move || end_orphans(&common_dir, id, processes.is_supervisor);
            let ended = tokio::task::spawn_blocking(end_processes).await.map_err(std::io::Error::other).flatten();
            let failed = |source| EnvironmentError::Io { what: "the environment cannot be locked".to_owned(), source };
            if ended.map_err(failed)? {
                tracing::warn!(environment = %environment.id, "ended what a killed run had left");
            }
        }
        Ok(())
    }

    async fn clean_all(&self) {
        if let Err(error) = self.store.forget_events(Moment::now().add_duration(-EVENT_RETENTION)).await {
            tracing::warn!("what platforms told long ago was not forgotten: {error}");
        }
        let codebases = match self.store.list_codebases().await {
            Ok(codebases) => codebases,
            Err(error) => return tracing::warn!("nothing was cleaned up: {error}"),
        };
        for codebase in codebases {
            match self.run_scheduled(&codebase, false, &|_, _| {}).await {
                Ok(Some(report)) => tracing::info!(
                    codebase = codebase.name,
                    removed = report.removed.len(),
                    skipped = report.skipped.len(),
                    failed = report.failed.len(),
                    "cleaned up"
                ),
                Ok(None) => tracing::info!(codebase = codebase.name, "another process cleans up"),
                Err(error) => tracing::warn!(codebase = codebase.name, "not cleaned up: {error}"),
            }
        }
    }
}
