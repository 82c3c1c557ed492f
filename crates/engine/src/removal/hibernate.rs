//! Putting an environment to sleep, and waking it: removal and undo without an end.

use grove_model::{Codebase, Environment, Moment, Question, Status};

use super::execute::Rest;
use super::{Asker, Held, RemovalWish, Removed};
use crate::isolation::journal::fault_point;
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
        let Held { lock, environment, removable } =
            match self.hold(codebase, environment, &[Status::Active], &Asker::Person).await {
                Err(error @ IsolationError::InTheMaking { .. }) => {
                    // Put away by somebody who was quicker, or who was cut short after it was.
                    let now = self.reread(environment).await?;
                    return if now.status == Status::Hibernated { Ok(now) } else { Err(error) };
                }
                held => held?,
            };
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
        fault_point("compacted");
        drop(lock);
        self.reread(&environment).await
    }

    /// Removes a hibernated one: it is woken, so that it can be asked what speaks against it, and put
    /// to sleep again if something does. Forced, it need not wake: it is in the trash already, and from
    /// now on not for ever.
    pub(super) async fn remove_sleeping(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        wish: &RemovalWish,
    ) -> Result<Removed, IsolationError> {
        match self.wake(codebase, environment).await {
            Ok(awake) => {
                let removed = self.remove(codebase, &awake, wish).await;
                if removed.is_err()
                    && let Err(error) = self.hibernate(codebase, &awake).await
                {
                    tracing::warn!(environment = %awake.id, "it stays awake: {error}");
                }
                removed
            }
            Err(_) if wish.force => {
                let row = self.store.trash_row(environment.id).await?;
                let row = row.ok_or_else(|| IsolationError::NotInTrash(environment.branch.to_string()))?;
                let undo_until = self.keep_until(Moment::now());
                self.store.end_sleep(environment.id, undo_until).await?;
                let fate = self.trashed(codebase, &row)?.manifest.fate;
                Ok(Removed::Trashed { fate, branch_kept: true, undo_until, may_shed: false })
            }
            Err(error) => Err(error),
        }
    }

    /// Brings a hibernated environment back, at the same path.
    pub async fn wake(&self, codebase: &Codebase, environment: &Environment) -> Result<Environment, IsolationError> {
        let now = self.reread(environment).await?;
        if !matches!(now.status, Status::Hibernated | Status::Removing) {
            return Err(IsolationError::NotHibernated { branch: now.branch, status: now.status });
        }
        match self.undo(codebase, &now).await {
            Err(error @ IsolationError::NotInTrash(_)) => {
                // Somebody else woke it, or what was cut short has brought it back.
                let now = self.reread(&now).await?;
                if now.status == Status::Active { Ok(now) } else { Err(error) }
            }
            woken => woken,
        }
    }
}
