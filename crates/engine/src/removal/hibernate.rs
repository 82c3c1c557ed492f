//! Putting an environment to sleep, and waking it: removal and undo without an end.

use grove_git::removal::{Manifest, RemovalError};
use grove_model::{Answer, Codebase, Environment, Moment, Question, Status};

use super::execute::Rest;
use super::{Asker, Plan, RemovalWish, Removed};
use crate::isolation::{Isolation, IsolationError};

impl Isolation {
    /// Puts an environment away until it is needed: directory and registration go to the trash,
    /// compacted and without an end; record, branch and conversations stay. Everything in it comes
    /// back, so unsaved work is no reason against it; a command that runs there is.
    pub async fn hibernate(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Environment, IsolationError> {
        self.quarantine_broken(codebase).await?;
        let lock = self.lock_of(codebase, environment)?;
        let holder = self.wait_for_mover(&lock).await?;
        let environment = self.reread(environment).await?;
        if environment.status != Status::Active {
            return Err(IsolationError::InTheMaking { work: environment.work.to_string() });
        }
        let removable = match self.plan_with(codebase, &environment, &Asker::Person, &holder).await? {
            Plan::Remove(removable) => removable,
            Plan::Gone => {
                let why = "its folder is gone".to_owned();
                return Err(IsolationError::Broken { path: environment.path, why });
            }
            Plan::Release => {
                let why = "somebody else made that worktree".to_owned();
                return Err(IsolationError::Broken { path: environment.path, why });
            }
        };
        let keeps = |(question, answer): &(Question, Answer)| {
            !answer.is_no() && (*question == Question::LiveRun || question.is_hard())
        };
        let reasons: Vec<_> = removable.checks.iter().filter(|check| keeps(check)).cloned().collect();
        if !reasons.is_empty() {
            return Err(self.refusal(environment, reasons));
        }
        let wish = RemovalWish { force: true, ..RemovalWish::default() };
        self.put_away(codebase, &environment, &removable, &wish, Rest::Asleep).await?;
        // What git holds anyway need not lie here twice.
        if let Some(row) = self.store.trash_row(environment.id).await? {
            let trashed = self.trashed(codebase, &row)?;
            if let Err(error) = trashed.compact(&self.repository(codebase)).await {
                tracing::warn!(environment = %environment.id, "not compacted: {error}");
            }
        }
        drop(lock);
        self.reread(&environment).await
    }

    /// Removes a hibernated one: it is in the trash already, and from now on not for ever.
    pub(super) async fn remove_sleeping(&self, environment: &Environment) -> Result<Removed, IsolationError> {
        let row = self.store.trash_row(environment.id).await?;
        let row = row.ok_or_else(|| IsolationError::NotInTrash(environment.branch.to_string()))?;
        let undo_until = self.keep_until(Moment::now());
        self.store.end_sleep(environment.id, undo_until).await?;
        let manifest: Manifest = serde_json::from_str(&row.manifest)
            .map_err(|error| IsolationError::Removal(RemovalError::BadManifest(error.to_string())))?;
        Ok(Removed::Trashed { fate: manifest.fate, branch_kept: true, undo_until, may_shed: false })
    }

    /// Brings a hibernated environment back, at the same path.
    pub async fn wake(&self, codebase: &Codebase, environment: &Environment) -> Result<Environment, IsolationError> {
        let now = self.reread(environment).await?;
        match now.status {
            Status::Hibernated | Status::Removing => self.undo(codebase, &now).await,
            status => Err(IsolationError::NotHibernated { branch: now.branch, status }),
        }
    }
}
