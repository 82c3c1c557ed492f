//! An environment is brought up to date.

use grove_git::Repository;
use grove_git::base::choose_remote;
use grove_git::checked_out::CheckedOut;
use grove_git::sync::{SyncError, is_there, merge, newest, newest_of_pull_request, of_remote};
use grove_model::{BranchName, Codebase, CommitSha, Environment, Kind, Question, Status};

use crate::environments::Isolation;
use crate::error::{IsolationError, RefusedAction};
use crate::remove::{Asker, Held};

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    /// The branch that it was brought into.
    pub branch: BranchName,
    /// What was brought in.
    pub from: String,
    pub at: CommitSha,
    /// Whether there was anything new.
    pub changed: bool,
}

/// Where newer commits come from.
enum Source {
    /// A branch: `main`, `origin/main`.
    Branch(String),
    /// What the forge calls the head of a pull request that has no branch here.
    PullRequest { remote: String, number: u64 },
}

impl Source {
    /// Whether no remote has to be asked for it.
    async fn is_here(&self, repo: &Repository) -> Result<bool, IsolationError> {
        Ok(match self {
            Source::Branch(name) => of_remote(repo, name).await?.is_none(),
            Source::PullRequest { .. } => false,
        })
    }
}

impl Isolation {
    /// Brings what was pushed to the branch itself, or else the base, into the environment; for a pull
    /// request only its newer commits. Unsaved changes and a conflict leave everything as it is.
    pub async fn sync(&self, codebase: &Codebase, environment: &Environment) -> Result<Synced, IsolationError> {
        let may_be = [Status::Active, Status::Failed];
        let Held { lock: _lock, environment, removable: look } =
            self.hold(codebase, environment, &may_be, &Asker::Person).await?;
        let in_the_way = [Question::Changes, Question::HiddenChanges, Question::InProgress, Question::LiveRun];
        let reasons = look.against(&in_the_way);
        if !reasons.is_empty() {
            return Err(self.refusal(RefusedAction::Sync, environment, reasons));
        }
        let repo = self.repository(codebase);
        let failed = |error| IsolationError::Sync(Box::new(error));
        // What is checked out is brought up to date, whatever was recorded.
        let branch = match self.checked_out_instead(codebase, &environment).await? {
            None => environment.branch.clone(),
            Some(CheckedOut::Branch(branch)) => branch,
            Some(now @ CheckedOut::Detached(_)) => {
                let recorded = environment.branch.clone();
                return Err(IsolationError::OtherBranch { recorded, now: Box::new(now), named: None });
            }
        };
        let mut environment = Environment { branch: branch.clone(), ..environment };
        let (own, last) = self.sources(&repo, &environment).await?;
        // The base may need no remote, and does not wait for one then.
        let there = match &own {
            None => false,
            Some(own) => match is_there(&repo, own).await {
                Err(SyncError::FetchFailed { .. }) if last.is_here(&repo).await? => false,
                there => there.map_err(failed)?,
            },
        };
        if let Some(own) = own.filter(|_| there) {
            let at = newest(&repo, &own).await.map_err(failed)?;
            if merge(&repo, &environment.path, &look.entry, &own, &at).await.map_err(failed)? {
                self.store.record(environment.id, "synced", Some(at.as_str())).await?;
                self.end_failure(&mut environment).await?;
                return Ok(Synced { branch, from: own, at, changed: true });
            }
        }
        let (from, at) = match last {
            Source::Branch(name) => (name.clone(), newest(&repo, &name).await.map_err(failed)?),
            Source::PullRequest { remote, number } => {
                let at = newest_of_pull_request(&repo, &remote, number).await.map_err(failed)?;
                (format!("pull request #{number}"), at)
            }
        };
        let changed = merge(&repo, &environment.path, &look.entry, &from, &at).await.map_err(failed)?;
        self.store.record(environment.id, "synced", Some(at.as_str())).await?;
        self.end_failure(&mut environment).await?;
        Ok(Synced { branch, from, at, changed })
    }

    /// The same branch elsewhere, if that comes before the rest, and the rest.
    async fn sources(
        &self,
        repo: &Repository,
        environment: &Environment,
    ) -> Result<(Option<String>, Source), IsolationError> {
        let upstream = repo.upstream_of(&environment.branch).await?;
        let base = || {
            let why = "nothing is recorded of its base".to_owned();
            let broken = || IsolationError::Broken { path: environment.path.clone(), why };
            environment.base_ref.clone().map(Source::Branch).ok_or_else(broken)
        };
        let is_pull = matches!(environment.work.kind(), Kind::Pr | Kind::Review);
        if let Some(upstream) = upstream {
            return Ok(if is_pull { (None, Source::Branch(upstream)) } else { (Some(upstream), base()?) });
        }
        let remote = choose_remote(self.settings.remote(), &repo.remotes().await?);
        if !is_pull {
            // Where it is not clear which remote is meant, none is.
            let own = remote.ok().flatten().map(|remote| format!("{remote}/{}", environment.branch));
            return Ok((own, base()?));
        }
        let remote = remote?;
        match (remote, environment.work.number()) {
            (Some(remote), Some(number)) => Ok((None, Source::PullRequest { remote, number })),
            _ => Ok((None, base()?)),
        }
    }
}
