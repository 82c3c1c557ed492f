//! `grove_trash`: removals and undos; each begins and ends in one transaction with the record

use grove_model::{CodebaseId, EnvironmentId, Moment, ProcessOwner, Status, TrashPhase};
use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};

use crate::conversations::{CONVERSATIONS_OF_ENVIRONMENT, read_bound};
use crate::row::RowReader;
use crate::{ConversationRef, Store, StoreError};

const CHANGE_ENVIRONMENT_STATUS: &str = "UPDATE remote_agent_isolation_environments \
     SET status = $3, owner = $4, lease_until = $5, updated_at = $6 WHERE id = $1 AND status = $2";
// A hibernated environment comes back awake, with the status that it had before.
const UPSERT_TRASH_ROW: &str = "INSERT INTO grove_trash (environment_id, phase, from_status, manifest, removed_at, sleeps) \
     VALUES ($1, 'moving', $2, $3, $4, $5) ON CONFLICT (environment_id) DO UPDATE SET phase = 'moving', \
     from_status = CASE excluded.from_status WHEN 'hibernated' THEN grove_trash.from_status \
       ELSE excluded.from_status END, \
     manifest = excluded.manifest, removed_at = excluded.removed_at, keep_until = NULL, compacted_at = NULL, \
     conversations = '[]', sleeps = excluded.sleeps";
const UPDATE_TRASH_PHASE: &str =
    "UPDATE grove_trash SET phase = $2, keep_until = $3, conversations = $4 WHERE environment_id = $1";
const END_HIBERNATION: &str = "UPDATE grove_trash SET sleeps = 0, keep_until = $2 WHERE environment_id = $1";
const MARK_TRASH_RETURNING: &str =
    "UPDATE grove_trash SET phase = 'returning' WHERE environment_id = $1 AND phase = 'kept'";
const MARK_TRASH_KEPT: &str = "UPDATE grove_trash SET phase = 'kept' WHERE environment_id = $1";
const SET_TRASH_KEEP_UNTIL: &str =
    "UPDATE grove_trash SET keep_until = $2 WHERE environment_id = $1 AND phase = 'kept'";
const MARK_TRASH_COMPACTED: &str =
    "UPDATE grove_trash SET compacted_at = $2 WHERE environment_id = $1 AND phase = 'kept'";
const DELETE_TRASH_ROW: &str = "DELETE FROM grove_trash WHERE environment_id = $1";
const UNBIND_CONVERSATIONS: &str = "UPDATE remote_agent_conversations SET isolation_env_id = NULL, cwd = NULL, updated_at = $2, \
     removed_branch = (SELECT e.branch_name FROM remote_agent_isolation_environments e WHERE e.id = $1) \
     WHERE isolation_env_id = $1";
const REBIND_CONVERSATION: &str = "UPDATE remote_agent_conversations SET isolation_env_id = $2, removed_branch = NULL, updated_at = $3 \
     WHERE id = $1 AND isolation_env_id IS NULL AND codebase_id = \
       (SELECT e.codebase_id FROM remote_agent_isolation_environments e WHERE e.id = $2)";
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT t.environment_id AS id, t.phase AS phase, t.from_status AS from_status, t.manifest AS manifest, \
             t.removed_at AS removed_at, t.keep_until AS keep_until, t.compacted_at AS compacted_at, \
             t.conversations AS conversations, t.sleeps AS sleeps FROM grove_trash t ",
            $rest
        )
    };
}
const TRASH_ROW_BY_ENVIRONMENT: &str = select!("WHERE t.environment_id = $1");
const TRASH_OF_CODEBASE: &str = select!(
    "JOIN remote_agent_isolation_environments e ON e.id = t.environment_id \
     WHERE e.codebase_id = $1 ORDER BY t.removed_at, t.environment_id"
);

/// One environment in the trash.
#[derive(Clone, Debug)]
pub struct TrashRow {
    pub environment: EnvironmentId,
    pub phase: TrashPhase,
    pub from: Status,
    /// JSON that only the code that moves worktrees reads.
    pub manifest: String,
    pub removed_at: Moment,
    /// `None`: kept without a time limit.
    pub keep_until: Option<Moment>,
    /// It hibernates; it was not removed.
    pub sleeps: bool,
    pub compacted_at: Option<Moment>,
    conversations: String,
}

/// A removal that is about to begin.
#[derive(Clone, Debug)]
pub struct RemovalIntent<'a> {
    pub environment: EnvironmentId,
    pub from: Status,
    pub owner: &'a ProcessOwner,
    pub lease_until: Moment,
    pub manifest: &'a str,
    pub removed_at: Moment,
    /// The environment is to hibernate.
    pub sleeps: bool,
    /// The conversations that may work there; `None`: any.
    pub but_for: Option<&'a [ConversationRef]>,
}

/// The outcome of trying to begin a removal or an undo.
#[derive(Debug, PartialEq, Eq)]
pub enum BeginOutcome {
    Yes,
    /// Another process has changed the environment meanwhile.
    Moved,
    /// These conversations work there.
    InUse(Vec<String>),
    /// Another environment has the work, the branch or the path.
    Successor,
}

impl Store {
    /// Changes `from` to `removing`, stores the intent, and checks which conversations use the environment,
    /// in one transaction.
    pub async fn begin_removal(&self, intent: &RemovalIntent<'_>) -> Result<BeginOutcome, StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            // This update comes first, so that a process that binds a conversation meanwhile waits for this
            // transaction.
            let left = change_status(
                &mut transaction,
                intent.environment,
                intent.from,
                Status::Removing,
                Some((intent.owner, intent.lease_until)),
            );
            if left.await? == 0 {
                drop(transaction);
                return self.begun_already(intent).await;
            }
            if let Some(but_for) = intent.but_for {
                let others: Vec<String> = bound_conversations(&mut transaction, intent.environment)
                    .await?
                    .into_iter()
                    .filter(|(_, conversation)| !but_for.contains(conversation))
                    .map(|(_, conversation)| conversation.id)
                    .collect();
                if !others.is_empty() {
                    return Ok(BeginOutcome::InUse(others));
                }
            }
            let put = sqlx::query(UPSERT_TRASH_ROW).bind(intent.environment.to_string()).bind(intent.from.as_str());
            let put = put.bind(intent.manifest.to_owned()).bind(intent.removed_at.to_string());
            put.bind(i64::from(intent.sleeps)).execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(BeginOutcome::Yes)
        })
        .await
    }

    /// Changes `removing` to `destroyed`, kept until `keep_until`, and unbinds all conversations.
    pub async fn end_removal(
        &self,
        id: EnvironmentId,
        to: Status,
        keep_until: Option<Moment>,
    ) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            if change_status(&mut transaction, id, Status::Removing, to, None).await? == 0 {
                drop(transaction);
                return self.done_already(id, to).await;
            }
            let bound: Vec<String> =
                bound_conversations(&mut transaction, id).await?.into_iter().map(|(id, _)| id).collect();
            let bound = serde_json::to_string(&bound).map_err(|error| StoreError::Other(error.to_string()))?;
            if to == Status::Destroyed {
                let unbind = sqlx::query(UNBIND_CONVERSATIONS).bind(id.to_string()).bind(Moment::now().to_string());
                unbind.execute(&mut *transaction).await?;
            }
            let phase = sqlx::query(UPDATE_TRASH_PHASE).bind(id.to_string()).bind(TrashPhase::Kept.as_str());
            phase.bind(keep_until.map(|at| at.to_string())).bind(bound).execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// Takes an environment out of the trash, back to its earlier status: a removal was given up, or an undo
    /// has ended.
    pub async fn leave_trash(&self, id: EnvironmentId) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            let Some(row) =
                sqlx::query(TRASH_ROW_BY_ENVIRONMENT).bind(id.to_string()).fetch_optional(&mut *transaction).await?
            else {
                return Ok(());
            };
            let row = read_trash_row(&row)?;
            if row.phase == TrashPhase::Kept
                || change_status(&mut transaction, id, Status::Removing, row.from, None).await? == 0
            {
                return Err(StoreError::Moved { expected: "being removed" });
            }
            let bound: Vec<String> = serde_json::from_str(&row.conversations).unwrap_or_default();
            for conversation in bound {
                let rebind = sqlx::query(REBIND_CONVERSATION)
                    .bind(conversation)
                    .bind(id.to_string())
                    .bind(Moment::now().to_string());
                rebind.execute(&mut *transaction).await?;
            }
            sqlx::query(DELETE_TRASH_ROW).bind(id.to_string()).execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// Changes `from` (`destroyed` or `hibernated`) to `removing`, to bring the environment back. The unique
    /// indexes tell whether a successor has the work, the branch or the path.
    pub async fn begin_undo(
        &self,
        id: EnvironmentId,
        from: Status,
        owner: &ProcessOwner,
        lease_until: Moment,
    ) -> Result<BeginOutcome, StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            let left = change_status(&mut transaction, id, from, Status::Removing, Some((owner, lease_until))).await;
            match left {
                Ok(0) => return Ok(BeginOutcome::Moved),
                Ok(_) => {}
                Err(sqlx::Error::Database(error)) if error.is_unique_violation() => return Ok(BeginOutcome::Successor),
                Err(error) => return Err(error.into()),
            }
            let returning = sqlx::query(MARK_TRASH_RETURNING).bind(id.to_string()).execute(&mut *transaction).await?;
            if returning.rows_affected() == 0 {
                return Ok(BeginOutcome::Moved);
            }
            transaction.commit().await?;
            Ok(BeginOutcome::Yes)
        })
        .await
    }

    /// Changes `hibernated` to `destroyed`, kept until `until`.
    pub async fn end_sleep(&self, id: EnvironmentId, until: Moment) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            if change_status(&mut transaction, id, Status::Hibernated, Status::Destroyed, None).await? == 0 {
                drop(transaction);
                return self.done_already(id, Status::Destroyed).await;
            }
            let unbind = sqlx::query(UNBIND_CONVERSATIONS).bind(id.to_string()).bind(Moment::now().to_string());
            unbind.execute(&mut *transaction).await?;
            sqlx::query(END_HIBERNATION)
                .bind(id.to_string())
                .bind(until.to_string())
                .execute(&mut *transaction)
                .await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// Leaves an environment in the trash, because an undo was given up.
    pub async fn stay_in_trash(&self, id: EnvironmentId, to: Status) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            if change_status(&mut transaction, id, Status::Removing, to, None).await? == 0 {
                drop(transaction);
                return self.done_already(id, to).await;
            }
            sqlx::query(MARK_TRASH_KEPT).bind(id.to_string()).execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    pub async fn trash_row(&self, id: EnvironmentId) -> Result<Option<TrashRow>, StoreError> {
        self.retry_while_disconnected(|| async {
            let row = sqlx::query(TRASH_ROW_BY_ENVIRONMENT).bind(id.to_string()).fetch_optional(&self.pool).await?;
            row.as_ref().map(read_trash_row).transpose()
        })
        .await
    }

    /// Returns the trash of a codebase, oldest first.
    pub async fn trash_of(&self, codebase: CodebaseId) -> Result<Vec<TrashRow>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(TRASH_OF_CODEBASE).bind(codebase.to_string()).fetch_all(&self.pool).await?;
            rows.iter().map(read_trash_row).collect()
        })
        .await
    }

    pub async fn keep_in_trash_until(&self, id: EnvironmentId, until: Moment) -> Result<(), StoreError> {
        self.set_trash_time(SET_TRASH_KEEP_UNTIL, id, until).await
    }

    pub async fn trash_is_compacted(&self, id: EnvironmentId, at: Moment) -> Result<(), StoreError> {
        self.set_trash_time(MARK_TRASH_COMPACTED, id, at).await
    }

    async fn set_trash_time(&self, statement: &'static str, id: EnvironmentId, at: Moment) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            sqlx::query(statement).bind(id.to_string()).bind(at.to_string()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Deletes the row of an environment that is gone for good.
    pub async fn forget_trash(&self, id: EnvironmentId) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            sqlx::query(DELETE_TRASH_ROW).bind(id.to_string()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Finds the intent of a call that is repeated after a lost answer.
    async fn begun_already(&self, intent: &RemovalIntent<'_>) -> Result<BeginOutcome, StoreError> {
        let now = self.try_environment(intent.environment).await?;
        let ours = now.is_some_and(|now| now.status == Status::Removing && now.owner.as_ref() == Some(intent.owner));
        let row = sqlx::query(TRASH_ROW_BY_ENVIRONMENT)
            .bind(intent.environment.to_string())
            .fetch_optional(&self.pool)
            .await?;
        let row = row.as_ref().map(read_trash_row).transpose()?;
        let same = row.is_some_and(|row| row.phase == TrashPhase::Moving && row.manifest == intent.manifest);
        Ok(if ours && same { BeginOutcome::Yes } else { BeginOutcome::Moved })
    }

    /// Accepts the result of a repeated call whose work is already done.
    async fn done_already(&self, id: EnvironmentId, to: Status) -> Result<(), StoreError> {
        match self.try_environment(id).await? {
            Some(environment) if environment.status == to => Ok(()),
            _ => Err(StoreError::Moved { expected: "being removed" }),
        }
    }
}

type TrashTransaction<'a> = Transaction<'a, Any>;

async fn change_status(
    transaction: &mut TrashTransaction<'_>,
    id: EnvironmentId,
    from: Status,
    to: Status,
    owner: Option<(&ProcessOwner, Moment)>,
) -> Result<u64, sqlx::Error> {
    let query = sqlx::query(CHANGE_ENVIRONMENT_STATUS)
        .bind(id.to_string())
        .bind(from.as_str())
        .bind(to.as_str())
        .bind(owner.map(|(owner, _)| owner.to_string()))
        .bind(owner.map(|(_, until)| until.to_string()))
        .bind(Moment::now().to_string());
    Ok(query.execute(&mut **transaction).await?.rows_affected())
}

/// Returns the conversations that work in an environment: our id, and the platform's.
async fn bound_conversations(
    transaction: &mut TrashTransaction<'_>,
    id: EnvironmentId,
) -> Result<Vec<(String, ConversationRef)>, StoreError> {
    read_bound(&sqlx::query(CONVERSATIONS_OF_ENVIRONMENT).bind(id.to_string()).fetch_all(&mut **transaction).await?)
}

fn read_trash_row(row: &AnyRow) -> Result<TrashRow, StoreError> {
    let row = RowReader { row, table: "grove_trash" };
    Ok(TrashRow {
        environment: row.parse("id")?,
        phase: row.parse("phase")?,
        from: row.parse("from_status")?,
        manifest: row.required_text("manifest")?,
        removed_at: row.parse("removed_at")?,
        keep_until: row.parse_optional("keep_until")?,
        sleeps: row.required_number("sleeps")? != 0,
        compacted_at: row.parse_optional("compacted_at")?,
        conversations: row.required_text("conversations")?,
    })
}
