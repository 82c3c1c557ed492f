//! Brings an environment up to date.

use grove_git::Repository;
use grove_git::base::choose_remote;
use grove_git::checked_out::CheckedOut;
use grove_git::sync::{SyncError, fetch_newest, is_there, newest_of_pull_request, of_remote};
use grove_model::{BranchName, Codebase, CommitSha, Environment, Question, Status, WorkKind};

use crate::environments::Environments;
use crate::error::{EnvironmentError, IntegrateError, RefusedAction};
use crate::remove::{HeldEnvironment, RemovalRequester};

/// The outcome of a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncOutcome {
    /// The branch that was updated.
    pub branch: BranchName,
    /// The source of the new commits.
    pub from: String,
    pub at: CommitSha,
    /// Tells whether there was anything new.
    pub changed: bool,
}

/// The source of newer commits.
enum SyncSource {
    /// A branch: `main`, `origin/main`.
    Branch(String),
    /// The forge's ref for the head of a pull request that has no branch here.
    PullRequest { remote: String, number: u64 },
}

impl SyncSource {
    /// Tells whether the source can be read without asking a remote.
    async fn is_here(&self, repo: &Repository) -> Result<bool, EnvironmentError> {
        Ok(match self {
            SyncSource::Branch(name) => of_remote(repo, name).await?.is_none(),
            SyncSource::PullRequest { .. } => false,
        })
    }
}

impl Environments {
    /// Merges the commits that were pushed to the branch itself, or else the base, into the environment; for
    /// a pull request, only its newer commits. Unsaved changes or a conflict leave everything as it is.
    pub async fn sync_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<SyncOutcome, EnvironmentError> {
        let may_be = [Status::Active, Status::Failed];
        let HeldEnvironment { lock: _lock, environment, removable } =
            self.hold_environment(codebase, environment, &may_be, &RemovalRequester::Person).await?;
        let in_the_way = [Question::Changes, Question::HiddenChanges, Question::InProgress, Question::LiveRun];
        let reasons = removable.blocking_answers(&in_the_way);
        if !reasons.is_empty() {
            return Err(self.refusal_error(RefusedAction::Sync, environment, reasons));
        }
        let repo = self.open_repository(codebase);
        let failed = |error| EnvironmentError::Integrate(IntegrateError::Sync(Box::new(error)));
        // The branch that is checked out is updated, whatever was recorded.
        let branch = match self.checked_out_instead(codebase, &environment).await? {
            None => environment.branch.clone(),
            Some(CheckedOut::Branch(branch)) => branch,
            Some(now @ CheckedOut::Detached(_)) => {
                let recorded = environment.branch.clone();
                return Err(EnvironmentError::Integrate(IntegrateError::OtherBranch {
                    recorded,
                    now: Box::new(now),
                    named: None,
                }));
            }
        };
        let mut environment = Environment { branch: branch.clone(), ..environment };
        let (own, last) = self.sync_sources(&repo, &environment).await?;
        // A base that needs no remote does not wait for one.
        let there = match &own {
            None => false,
            Some(own) => match is_there(&repo, own).await {
                Err(SyncError::FetchFailed { .. }) if last.is_here(&repo).await? => false,
                there => there.map_err(failed)?,
            },
        };
        if let Some(own) = own.filter(|_| there) {
            let at = fetch_newest(&repo, &own).await.map_err(failed)?;
            if self.provider.merge_commit(codebase, &environment, &removable.entry, &own, &at).await.map_err(failed)? {
                self.store.record_journal_line(environment.id, "synced", Some(at.as_str())).await?;
                self.end_failure(&mut environment).await?;
                return Ok(SyncOutcome { branch, from: own, at, changed: true });
            }
        }
        let (from, at) = match last {
            SyncSource::Branch(name) => (name.clone(), fetch_newest(&repo, &name).await.map_err(failed)?),
            SyncSource::PullRequest { remote, number } => {
                let at = newest_of_pull_request(&repo, &remote, number).await.map_err(failed)?;
                (format!("pull request #{number}"), at)
            }
        };
        let changed =
            self.provider.merge_commit(codebase, &environment, &removable.entry, &from, &at).await.map_err(failed)?;
        self.store.record_journal_line(environment.id, "synced", Some(at.as_str())).await?;
        self.end_failure(&mut environment).await?;
        Ok(SyncOutcome { branch, from, at, changed })
    }

    /// Returns the upstream of the branch, if it is to be merged first, and the source to use otherwise.
    async fn sync_sources(
        &self,
        repo: &Repository,
        environment: &Environment,
    ) -> Result<(Option<String>, SyncSource), EnvironmentError> {
        let upstream = repo.upstream_of(&environment.branch).await?;
        let base = || {
            let why = "nothing is recorded of its base".to_owned();
            let broken = || EnvironmentError::Broken { path: environment.path.clone(), why };
            environment.base_ref.clone().map(SyncSource::Branch).ok_or_else(broken)
        };
        let is_pull = matches!(environment.work.work_kind(), WorkKind::Pr | WorkKind::Review);
        if let Some(upstream) = upstream {
            return Ok(if is_pull { (None, SyncSource::Branch(upstream)) } else { (Some(upstream), base()?) });
        }
        let remote = choose_remote(self.settings.current().remote_name(), &repo.list_remotes().await?);
        if !is_pull {
            // If it is unclear which remote is meant, none is used.
            let own = remote.ok().flatten().map(|remote| format!("{remote}/{}", environment.branch));
            return Ok((own, base()?));
        }
        let remote = remote?;
        match (remote, environment.work.forge_number()) {
            (Some(remote), Some(number)) => Ok((None, SyncSource::PullRequest { remote, number })),
            _ => Ok((None, base()?)),
        }
    }
}
