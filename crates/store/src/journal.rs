//! `grove_journal`: how far each environment has come

use grove_model::{EnvironmentId, Moment, Nonce};

use crate::row::Reader;
use crate::{Store, StoreError};

const INSERT: &str = "INSERT INTO grove_journal (id, environment_id, at, step, detail) VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT DO NOTHING";
const OF_ENVIRONMENT: &str = "SELECT id, at, step, detail FROM grove_journal WHERE environment_id = $1 ORDER BY id";

/// One line of an environment's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalLine {
    pub at: Moment,
    pub step: String,
    pub detail: Option<String>,
}

impl Store {
    pub async fn record(&self, environment: EnvironmentId, step: &str, detail: Option<&str>) -> Result<(), StoreError> {
        // Chosen once, so that a repeated call writes one line. Ids sort as they were made.
        let id = Nonce::new().to_string();
        self.retry(|| async {
            sqlx::query(INSERT)
                .bind(id.clone())
                .bind(environment.to_string())
                .bind(Moment::now().to_string())
                .bind(step.to_owned())
                .bind(detail.map(str::to_owned))
                .execute(&self.pool)
                .await?;
            Ok(())
        })
        .await
    }

    /// The history of an environment, oldest first.
    pub async fn journal(&self, environment: EnvironmentId) -> Result<Vec<JournalLine>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(OF_ENVIRONMENT).bind(environment.to_string()).fetch_all(&self.pool).await?;
            let line = |row| {
                let row = Reader { row, table: "grove_journal" };
                Ok(JournalLine { at: row.parse("at")?, step: row.text("step")?, detail: row.optional_text("detail")? })
            };
            rows.iter().map(line).collect()
        })
        .await
    }
}
