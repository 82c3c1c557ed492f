//! Putting an environment to sleep, and waking it: removal and undo without an end.

use grove_model::{Codebase, Environment, Moment, Question, Status};

use super::execute::Rest;
use super::{Held, RemovalWish, Removed};
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
        let Held { lock, environment, removable } = self.hold(codebase, environment, &[Status::Active]).await?;
        let reasons = removable.against(&[Question::LiveRun, Question::NestedWorktree]);
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
    pub(super) async fn remove_sleeping(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Removed, IsolationError> {
        let row = self.store.trash_row(environment.id).await?;
        let row = row.ok_or_else(|| IsolationError::NotInTrash(environment.branch.to_string()))?;
        let undo_until = self.keep_until(Moment::now());
        self.store.end_sleep(environment.id, undo_until).await?;
        let fate = self.trashed(codebase, &row)?.manifest.fate;
        Ok(Removed::Trashed { fate, branch_kept: true, undo_until, may_shed: false })
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
