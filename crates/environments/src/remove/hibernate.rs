//! Putting an environment to sleep, and waking it: removal and undo without an end.

use std::path::Path;

use grove_git::lock::Holder;
use grove_git::removal::Trashed;
use grove_git::removal::look::look_in_trash;
use grove_model::{Codebase, Environment, Moment, Question, Status};

use crate::environments::Isolation;
use crate::error::{IsolationError, RefusedAction};
use crate::journal::fault_point;
use crate::remove::execute::{Rest, fate_by};
use crate::remove::{Asker, Held, Hibernated, Plan, Removable, RemovalWish, Removed, Restored};

impl Isolation {
    /// Puts an environment away until it is needed: directory and registration go to the trash,
    /// compacted and without an end; record, branch and conversations stay. Everything in it comes
    /// back, so unsaved work is no reason against it; a command that runs there is.
    pub async fn hibernate(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Hibernated, IsolationError> {
        let Held { lock, environment, removable } =
            match self.hold(codebase, environment, &[Status::Active], &Asker::Person).await {
                Err(error @ IsolationError::InTheMaking { .. }) => {
                    // Put away by somebody who was quicker, or who was cut short after it was.
                    let now = self.reread(environment).await?;
                    let already = Hibernated { environment: now, regenerable: Vec::new() };
                    return if already.environment.status == Status::Hibernated { Ok(already) } else { Err(error) };
                }
                held => held?,
            };
        let reasons = removable.against(&[Question::LiveRun, Question::NestedWorktree]);
        if !reasons.is_empty() {
            return Err(self.refusal(RefusedAction::Hibernate, environment, reasons));
        }
        let wish = RemovalWish { force: true, ..RemovalWish::default() };
        let put_away = self.put_away(codebase, &environment, &removable, &wish, Rest::Asleep).await?;
        let regenerable = match put_away {
            Removed::Trashed { regenerable, .. } => regenerable,
            Removed::Gone | Removed::Released(_) => Vec::new(),
        };
        // What git holds anyway need not lie here twice.
        if let Some(row) = self.store.trash_row(environment.id).await? {
            let trashed = self.trashed(codebase, &row)?;
            if let Err(error) = trashed.compact(&self.repository(codebase)).await {
                tracing::warn!(environment = %environment.id, "not compacted: {error}");
            }
        }
        fault_point("compacted");
        drop(lock);
        Ok(Hibernated { environment: self.reread(&environment).await?, regenerable })
    }

    /// What a removal of a hibernated one would do. It need not wake for that: it is in the trash already.
    pub(super) async fn plan_sleeping(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        asker: &Asker,
        holder: &Holder,
    ) -> Result<Plan, IsolationError> {
        if environment.node != self.node {
            let why = format!("it is on another machine ({})", environment.node);
            return Err(IsolationError::Broken { path: environment.path.clone(), why });
        }
        let trashed = self.sleeping(codebase, environment).await?;
        let files = &trashed.manifest.files;
        match files.symlink_metadata() {
            Ok(_) => {}
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let what = format!("{} cannot be looked at", files.display());
                return Err(IsolationError::Io { what, source: error });
            }
            // Somebody deleted them, unless their disk is away.
            Err(_) if environment.path.parent().is_some_and(Path::exists) => return Ok(Plan::Gone),
            Err(_) => return Err(IsolationError::NotMounted(environment.path.clone())),
        }
        let needed = self.needed_branches(codebase, environment).await?;
        let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
        let look = look_in_trash(&self.repository(codebase), &trashed, &needed).await;
        let look = look.map_err(IsolationError::Removal)?;
        let removable = self.with_record(environment, asker, holder, trashed.buried_entry(), look).await?;
        Ok(Plan::Remove(Box::new(removable)))
    }

    /// Removes a hibernated one for a caller that has its lock: from now on it is in the trash not for
    /// ever, and its branch goes by the same rules as any other.
    pub(super) async fn remove_sleeping(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        removable: &Removable,
        wish: &RemovalWish,
    ) -> Result<Removed, IsolationError> {
        let mut trashed = self.sleeping(codebase, environment).await?;
        let fate = fate_by(&removable.branch, wish, Rest::Trash);
        trashed.manifest.recount = fate == removable.look.branch;
        trashed.manifest.fate = fate;
        trashed.manifest.removed_at = Moment::now();
        // Before the intent: from there on a crash goes forward.
        trashed.write_down(&self.repository(codebase)).await.map_err(IsolationError::Removal)?;
        self.begin(environment, &trashed, wish, Rest::Trash).await?;
        self.bury_rest(codebase, environment, &trashed, Rest::Trash).await
    }

    /// Where a hibernated environment waits.
    async fn sleeping(&self, codebase: &Codebase, environment: &Environment) -> Result<Trashed, IsolationError> {
        let row = self.store.trash_row(environment.id).await?;
        let row = row.ok_or_else(|| IsolationError::NotInTrash(environment.branch.to_string()))?;
        self.trashed(codebase, &row)
    }

    /// Brings a hibernated environment back, at the same path.
    pub async fn wake(&self, codebase: &Codebase, environment: &Environment) -> Result<Restored, IsolationError> {
        let now = self.reread(environment).await?;
        if !matches!(now.status, Status::Hibernated | Status::Removing) {
            return Err(IsolationError::NotHibernated { branch: now.branch, status: now.status });
        }
        match self.undo(codebase, &now).await {
            Err(error @ IsolationError::NotInTrash(_)) => {
                // Somebody else woke it, or what was cut short has brought it back.
                let now = self.reread(&now).await?;
                if now.status == Status::Active {
                    Ok(Restored { environment: now, gone: Vec::new() })
                } else {
                    Err(error)
                }
            }
            woken => woken,
        }
    }
}
