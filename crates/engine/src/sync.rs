//! An environment is brought up to date.

use grove_git::Repository;
use grove_git::sync::{merge, newest};
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
    /// Brings the base, or for a pull request on its own branch that branch's newer commits, into the
    /// environment. Unsaved changes and a conflict leave everything as it is.
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
        let upstream = match environment.work.kind() {
            Kind::Pr => repo.upstream_of(&environment.branch).await?,
            _ => None,
        };
        let from = match upstream.or_else(|| environment.base_ref.clone()) {
            Some(from) => from,
            None => return Err(broken("nothing is recorded of its base")),
        };
        let failed = |error| IsolationError::Sync(Box::new(error));
        let at = newest(&repo, &from).await.map_err(failed)?;
        let changed = merge(&repo, &environment.path, &look.entry, &from, &at).await.map_err(failed)?;
        self.store.record(environment.id, "synced", Some(at.as_str())).await?;
        Ok(Synced { from, at, changed })
    }
}
