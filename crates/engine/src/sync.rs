//! An environment is brought up to date.

use grove_git::Repository;
use grove_git::base::choose_remote;
use grove_git::sync::{merge, newest, newest_of_pull_request};
use grove_model::{Codebase, CommitSha, Environment, Kind, Question, Status};

use crate::isolation::{Isolation, IsolationError};
use crate::removal::{Asker, Held};

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    /// What was brought in.
    pub from: String,
    pub at: CommitSha,
    /// Whether there was anything new.
    pub changed: bool,
}

impl Isolation {
    /// Brings the base, or for a pull request its newer commits, into the environment. Unsaved changes and a conflict leave everything as it is.
    pub async fn sync(&self, codebase: &Codebase, environment: &Environment) -> Result<Synced, IsolationError> {
        let may_be = [Status::Active, Status::Failed];
        let Held { lock: _lock, environment, removable: look } =
            self.hold(codebase, environment, &may_be, &Asker::Person).await?;
        let broken = |why: &str| IsolationError::Broken { path: environment.path.clone(), why: why.to_owned() };
        let in_the_way = [Question::Changes, Question::HiddenChanges, Question::InProgress, Question::LiveRun];
        let reasons = look.against(&in_the_way);
        if !reasons.is_empty() {
            return Err(self.refusal(environment, reasons));
        }
        let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
        let upstream = repo.upstream_of(&environment.branch).await?;
        let failed = |error| IsolationError::Sync(Box::new(error));
        // A pull request that has no branch here: what the forge calls its head.
        let pull_request = match environment.work.kind() {
            Kind::Pr | Kind::Review if upstream.is_none() => environment.work.number(),
            _ => None,
        };
        let remote = choose_remote(self.settings.remote(), &repo.remotes().await?).unwrap_or_default();
        let (from, at) = match (pull_request, remote) {
            (Some(number), Some(remote)) => {
                let at = newest_of_pull_request(&repo, &remote, number).await.map_err(failed)?;
                (format!("pull request #{number}"), at)
            }
            _ => {
                // What was pushed to the branch itself comes before its base.
                if let (Some(own), false) = (&upstream, environment.work.kind() == Kind::Pr)
                    && let Ok(at) = newest(&repo, own).await
                    && merge(&repo, &environment.path, &look.entry, own, &at).await.map_err(failed)?
                {
                    self.store.record(environment.id, "synced", Some(at.as_str())).await?;
                    return Ok(Synced { from: own.clone(), at, changed: true });
                }
                let upstream = upstream.filter(|_| environment.work.kind() == Kind::Pr);
                let from = upstream.or_else(|| environment.base_ref.clone());
                let from = from.ok_or_else(|| broken("nothing is recorded of its base"))?;
                let at = newest(&repo, &from).await.map_err(failed)?;
                (from, at)
            }
        };
        let changed = merge(&repo, &environment.path, &look.entry, &from, &at).await.map_err(failed)?;
        self.store.record(environment.id, "synced", Some(at.as_str())).await?;
        Ok(Synced { from, at, changed })
    }
}
