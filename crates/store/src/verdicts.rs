//! `grove_verdicts` and `grove_facts`

use std::collections::HashMap;

use grove_model::{CodebaseId, Moment, Owner};

use crate::row::Reader;
use crate::{Store, StoreError};

const KNOWN: &str = "SELECT head_sha, against, verdict FROM grove_verdicts WHERE codebase_id = $1";
const KEEP: &str = "INSERT INTO grove_verdicts (codebase_id, head_sha, against, verdict, at) VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT DO NOTHING";
const FORGET: &str = "DELETE FROM grove_verdicts WHERE codebase_id = $1 AND at < $2";
const FACT: &str = "SELECT value FROM grove_facts WHERE name = $1";
const SET_FACT: &str = "INSERT INTO grove_facts (name, value) VALUES ($1, $2) \
     ON CONFLICT (name) DO UPDATE SET value = excluded.value";

const LEASE: &str = "INSERT INTO grove_facts (name, value) VALUES ($1, $2) \
     ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE grove_facts.value < $3";
const END_LEASE: &str = "DELETE FROM grove_facts WHERE name = $1 AND value = $2";

/// What a verdict is about: a commit, and what it was held against.
pub type VerdictKey = (String, String);

impl Store {
    /// What is known already, as JSON.
    pub async fn verdicts(&self, codebase: CodebaseId) -> Result<HashMap<VerdictKey, String>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(KNOWN).bind(codebase.to_string()).fetch_all(&self.pool).await?;
            let mut found = HashMap::new();
            for row in &rows {
                let row = Reader { row, table: "grove_verdicts" };
                found.insert((row.text("head_sha")?, row.text("against")?), row.text("verdict")?);
            }
            Ok(found)
        })
        .await
    }

    /// Keeps new ones, and lets go of those from before `old`.
    pub async fn keep_verdicts(
        &self,
        codebase: CodebaseId,
        new: &[(VerdictKey, String)],
        old: Moment,
    ) -> Result<(), StoreError> {
        self.retry(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            for ((head, against), verdict) in new {
                let keep = sqlx::query(KEEP).bind(codebase.to_string()).bind(head.clone()).bind(against.clone());
                keep.bind(verdict.clone()).bind(Moment::now().to_string()).execute(&mut *transaction).await?;
            }
            let forget = sqlx::query(FORGET).bind(codebase.to_string()).bind(old.to_string());
            forget.execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    pub async fn fact(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.retry(|| async { Ok(sqlx::query_scalar(FACT).bind(name.to_owned()).fetch_optional(&self.pool).await?) })
            .await
    }

    /// Takes a lease until `until`, if nobody has it at this moment. Gives what ends it.
    pub async fn take_lease(&self, name: &str, owner: &Owner, until: Moment) -> Result<Option<String>, StoreError> {
        // Times are of one width, so that text order is time order.
        let value = format!("{until} {owner}");
        self.retry(|| async {
            let take = sqlx::query(LEASE).bind(name.to_owned()).bind(value.clone()).bind(Moment::now().to_string());
            take.execute(&self.pool).await?;
            let now: Option<String> = sqlx::query_scalar(FACT).bind(name.to_owned()).fetch_optional(&self.pool).await?;
            Ok((now.as_ref() == Some(&value)).then(|| value.clone()))
        })
        .await
    }

    pub async fn end_lease(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.retry(|| async {
            sqlx::query(END_LEASE).bind(name.to_owned()).bind(value.to_owned()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    pub async fn set_fact(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.retry(|| async {
            sqlx::query(SET_FACT).bind(name.to_owned()).bind(value.to_owned()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }
}
