//! Environments go when git says that their work is finished, or nobody has been at it for long.
//!
//! Separate from whoever makes and chooses environments. What is to go is selected by a plain
//! function ([`select`]); each goes by the rules of removal ([`crate::remove`]), so that nothing is
//! lost whatever was selected. One that fails never stops the rest.

mod clock;
mod limit;
pub mod on_close;
pub mod select;

use std::collections::BTreeSet;
use std::path::Path;

use grove_git::refresh::OutdatedBase;
use grove_git::verdict::Tips;
use grove_git::{RemoteOptions, Repository};
use grove_model::{Codebase, Environment, Moment};
use jiff::SignedDuration;
use select::{Choice, Grace, Rules, Scope, Spared, Why, select};
use serde::Serialize;

use crate::environments::{Isolation, with_repository_settings};
use crate::error::{IsolationError, RefusedAction};
use crate::inspect::merge_status::{Standing, last_change};
use crate::lease::this_process;
use crate::problem::Problem;
use crate::remove::{Asker, BranchWish, Plan, RemovalWish};

/// What a clean-up did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub removed: Vec<Gone>,
    pub skipped: Vec<Skipped>,
    pub failed: Vec<Failed>,
    /// Bases that were judged as they were last seen, since their remote did not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gone {
    pub id: String,
    pub branch: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    pub id: String,
    pub branch: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    pub id: String,
    pub branch: String,
    pub error: String,
}

impl Report {
    pub fn append(&mut self, mut other: Report) {
        self.removed.append(&mut other.removed);
        self.skipped.append(&mut other.skipped);
        self.failed.append(&mut other.failed);
        self.warnings.append(&mut other.warnings);
    }
}

/// A cycle that was cut short is not waited for longer than this.
const LONGEST: SignedDuration = SignedDuration::from_mins(30);

/// Is told of each environment that was dealt with, for people who wait.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

impl Isolation {
    /// What the scheduler does: everything, one at a time for each codebase, whoever starts it.
    /// `None`: another process is at it.
    pub async fn run_scheduled(
        &self,
        codebase: &Codebase,
        dry_run: bool,
        progress: Progress<'_>,
    ) -> Result<Option<Report>, IsolationError> {
        let name = format!("cleanup {} {}", codebase.id, self.node);
        let until = Moment::now().plus(LONGEST);
        let Some(lease) = self.store.take_lease(&name, this_process(), until).await? else { return Ok(None) };
        let report = self.clean_up_for(&Asker::Person, codebase, Scope::Everything, dry_run, progress).await;
        self.store.end_lease(&name, &lease).await?;
        report.map(Some)
    }

    /// One cycle over a codebase: what is in scope goes, and with everything in scope, expired trash.
    pub async fn clean_up(
        &self,
        codebase: &Codebase,
        scope: Scope,
        dry_run: bool,
        progress: Progress<'_>,
    ) -> Result<Report, IsolationError> {
        self.clean_up_for(&Asker::Person, codebase, scope, dry_run, progress).await
    }

    /// The same, for somebody.
    pub async fn clean_up_for(
        &self,
        asker: &Asker,
        codebase: &Codebase,
        scope: Scope,
        dry_run: bool,
        progress: Progress<'_>,
    ) -> Result<Report, IsolationError> {
        let now = Moment::now();
        let grace = self.grace(now).filter(|_| scope == Scope::Everything);
        // Only what is judged by its age needs the clock; a dry run leaves no note of it.
        let steady = match (scope, dry_run) {
            (Scope::Merged, _) => true,
            (_, true) => self.clock_seems_steady(now).await?,
            (_, false) => self.clock_is_steady(now).await?,
        };
        if !steady {
            tracing::warn!("the clock jumped since the last clean-up: nothing counts as old or expired this time");
        }
        let rules = Rules { scope, steady, grace };
        let report = self.clean_by(&rules, asker, codebase, dry_run, progress).await?;
        if scope == Scope::Everything && !dry_run {
            self.measure(codebase, &self.environments_here(codebase).await?).await;
        }
        if scope == Scope::Everything && steady && !dry_run {
            let swept = self.sweep_trash(codebase, now).await?;
            if !swept.expired.is_empty() {
                tracing::info!("{} environments left the trash for good", swept.expired.len());
            }
        }
        Ok(report)
    }

    /// What protects environments from whatever happens by itself; `None` if nothing does.
    fn grace(&self, now: Moment) -> Option<Grace> {
        let length = self.settings.cleanup_grace();
        (!length.is_zero()).then_some(Grace { now, length })
    }

    async fn environments_here(&self, codebase: &Codebase) -> Result<Vec<Environment>, IsolationError> {
        let all = self.current_environments(codebase, false).await?;
        Ok(all.into_iter().filter(|environment| environment.node == self.node).collect())
    }

    /// Removes what the rules choose.
    async fn clean_by(
        &self,
        rules: &Rules,
        asker: &Asker,
        codebase: &Codebase,
        dry_run: bool,
        progress: Progress<'_>,
    ) -> Result<Report, IsolationError> {
        let here = self.environments_here(codebase).await?;
        let mut report = Report::default();
        if rules.scope != Scope::Stale {
            let outdated = self.refresh_bases(codebase, &here).await?;
            report.warnings = outdated.iter().map(ToString::to_string).collect();
        }
        let standings = self.standings(codebase, &here, Moment::now()).await?;
        for (done, environment) in here.iter().enumerate() {
            progress(done, here.len());
            let Some(standing) = standings.get(&environment.id) else { continue };
            match choose(environment, standing, rules).await {
                Choice::Leave => {}
                Choice::Spare(spared) => report.skipped.push(Skipped {
                    id: environment.id.to_string(),
                    branch: environment.branch.to_string(),
                    reason: spared.to_string(),
                }),
                Choice::Remove(why) => {
                    let wish = RemovalWish {
                        branch: branch_wish(Some(standing)),
                        asker: asker.clone(),
                        ..RemovalWish::default()
                    };
                    self.clean_one(codebase, environment, &wish, why, dry_run, &mut report).await;
                }
            }
        }
        progress(here.len(), here.len());
        Ok(report)
    }

    /// Asks the remotes what became of the bases, as `worktree.fetch` says.
    async fn refresh_bases(
        &self,
        codebase: &Codebase,
        environments: &[Environment],
    ) -> Result<Vec<OutdatedBase>, IsolationError> {
        let bases: BTreeSet<&str> = environments.iter().filter_map(|one| one.base_ref.as_deref()).collect();
        let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
        let settings = with_repository_settings(&repo, &self.settings, codebase.default_branch.as_deref()).await?;
        let repo = repo.with_remote_options(RemoteOptions {
            fetch_timeout: Some(settings.fetch_timeout()),
            on_wait: self.on_wait.clone(),
            ..RemoteOptions::default()
        });
        let tips = match Tips::of(&repo).await {
            Ok(tips) => tips,
            // Nothing will be found merged.
            Err(error) => {
                tracing::warn!(codebase = codebase.name, "its branches cannot be listed: {error}");
                return Ok(Vec::new());
            }
        };
        Ok(repo.refresh_bases(&tips, &bases, settings.fetch()).await?)
    }

    async fn clean_one(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        wish: &RemovalWish,
        why: Why,
        dry_run: bool,
        report: &mut Report,
    ) {
        let (id, branch) = (environment.id.to_string(), environment.branch.to_string());
        let outcome = if dry_run {
            self.would_go(codebase, environment, &wish.asker).await
        } else {
            self.remove(codebase, environment, wish).await.map(|_| None)
        };
        match outcome {
            Ok(None) => {
                tracing::info!(environment = %id, %branch, "cleaned up: {why}");
                report.removed.push(Gone { id, branch });
            }
            Ok(Some(reason)) => report.skipped.push(Skipped { id, branch, reason }),
            Err(
                error @ (IsolationError::Refused(_)
                | IsolationError::NotMounted(_)
                | IsolationError::InTheMaking { .. }),
            ) => {
                report.skipped.push(Skipped { id, branch, reason: reason_of(error) });
            }
            Err(error) => {
                let error = Problem::from(error).message;
                tracing::warn!(environment = %id, %branch, "not cleaned up: {error}");
                report.failed.push(Failed { id, branch, error });
            }
        }
    }

    /// What speaks against it, if anything does.
    async fn would_go(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        asker: &Asker,
    ) -> Result<Option<String>, IsolationError> {
        Ok(match self.plan_reasons(codebase, environment, asker).await? {
            Plan::Gone | Plan::Release => None,
            Plan::Remove(removable) => {
                let reasons = removable.reasons(false);
                (!reasons.is_empty())
                    .then(|| reason_of(self.refusal(RefusedAction::Remove, environment.clone(), reasons)))
            }
        })
    }
}

/// The choice, with a look at the disk: every file only of what is to go.
async fn choose(environment: &Environment, standing: &Standing, rules: &Rules) -> Choice {
    let is_gone = !environment.path.exists() && environment.path.parent().is_some_and(Path::exists);
    let choice = select(environment, is_gone, standing, rules);
    let (Choice::Remove(Why::Merged(_) | Why::Stale), Some(grace)) = (choice, rules.grace) else { return choice };
    let path = environment.path.clone();
    match tokio::task::spawn_blocking(move || last_change(&path)).await {
        Ok(Some(changed)) if grace.protects(changed) => Choice::Spare(Spared::Recent(grace.length)),
        Ok(Some(_)) => choice,
        Ok(None) | Err(_) => Choice::Spare(Spared::Unreadable),
    }
}

/// A commit that is proven to be in the base lets its branch go.
fn branch_wish(standing: Option<&Standing>) -> BranchWish {
    let merged = standing.filter(|standing| standing.is_merged()).and_then(|standing| standing.head.clone());
    merged.map_or(BranchWish::ByRule, BranchWish::Merged)
}

/// All that speaks against it, in one line.
fn reason_of(error: IsolationError) -> String {
    let problem = Problem::from(error);
    if problem.reasons.is_empty() {
        return problem.message;
    }
    let all: Vec<&str> = problem.reasons.iter().map(|reason| reason.message.as_str()).collect();
    all.join(" ")
}
