//! `grove_verdicts` and `grove_facts`

use std::collections::HashMap;

use grove_model::{CodebaseId, Moment, ProcessOwner};

use crate::row::RowReader;
use crate::{Store, StoreError};

const VERDICTS_OF_CODEBASE: &str = "SELECT head_sha, against, verdict FROM grove_verdicts WHERE codebase_id = $1";
const INSERT_VERDICT: &str = "INSERT INTO grove_verdicts (codebase_id, head_sha, against, verdict, at) VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT DO NOTHING";
const DELETE_OLD_VERDICTS: &str = "DELETE FROM grove_verdicts WHERE codebase_id = $1 AND at < $2";
const SELECT_FACT: &str = "SELECT value FROM grove_facts WHERE name = $1";
const SET_FACT: &str = "INSERT INTO grove_facts (name, value) VALUES ($1, $2) \
     ON CONFLICT (name) DO UPDATE SET value = excluded.value";

const TAKE_LEASE: &str = "INSERT INTO grove_facts (name, value) VALUES ($1, $2) \
     ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE grove_facts.value < $3";
const DELETE_LEASE: &str = "DELETE FROM grove_facts WHERE name = $1 AND value = $2";

/// The subject of a verdict: a commit, and the target that it was compared with.
pub type VerdictKey = (String, String);

impl Store {
    /// Returns the known verdicts, as JSON.
    pub async fn list_verdicts(&self, codebase: CodebaseId) -> Result<HashMap<VerdictKey, String>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(VERDICTS_OF_CODEBASE).bind(codebase.to_string()).fetch_all(&self.pool).await?;
            let mut found = HashMap::new();
            for row in &rows {
                let row = RowReader { row, table: "grove_verdicts" };
                found.insert(
                    (row.required_text("head_sha")?, row.required_text("against")?),
                    row.required_text("verdict")?,
                );
            }
            Ok(found)
        })
        .await
    }

    /// Stores new verdicts, and deletes those from before `old`.
    pub async fn keep_verdicts(
        &self,
        codebase: CodebaseId,
        new: &[(VerdictKey, String)],
        old: Moment,
    ) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            for ((head, against), verdict) in new {
                let keep =
                    sqlx::query(INSERT_VERDICT).bind(codebase.to_string()).bind(head.clone()).bind(against.clone());
                keep.bind(verdict.clone()).bind(Moment::now().to_string()).execute(&mut *transaction).await?;
            }
            let forget = sqlx::query(DELETE_OLD_VERDICTS).bind(codebase.to_string()).bind(old.to_string());
            forget.execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    pub async fn find_fact(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.retry_while_disconnected(|| async {
            Ok(sqlx::query_scalar(SELECT_FACT).bind(name.to_owned()).fetch_optional(&self.pool).await?)
        })
        .await
    }

    /// Takes a lease until `until`, if no process holds it at this moment. Returns the value that ends the
    /// lease.
    pub async fn take_lease(
        &self,
        name: &str,
        owner: &ProcessOwner,
        until: Moment,
    ) -> Result<Option<String>, StoreError> {
        // Times have one width, so that text order is time order.
        let value = format!("{until} {owner}");
        self.retry_while_disconnected(|| async {
            let take =
                sqlx::query(TAKE_LEASE).bind(name.to_owned()).bind(value.clone()).bind(Moment::now().to_string());
            take.execute(&self.pool).await?;
            let now: Option<String> =
                sqlx::query_scalar(SELECT_FACT).bind(name.to_owned()).fetch_optional(&self.pool).await?;
            Ok((now.as_ref() == Some(&value)).then(|| value.clone()))
        })
        .await
    }

    pub async fn end_lease(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            sqlx::query(DELETE_LEASE).bind(name.to_owned()).bind(value.to_owned()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    pub async fn set_fact(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            sqlx::query(SET_FACT).bind(name.to_owned()).bind(value.to_owned()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }
}
