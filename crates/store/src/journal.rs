//! `grove_journal`: the history of each environment

use grove_model::{EnvironmentId, Moment, Nonce};

use crate::row::RowReader;
use crate::{Store, StoreError};

const INSERT_JOURNAL_LINE: &str = "INSERT INTO grove_journal (id, environment_id, at, step, detail) VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT DO NOTHING";
const JOURNAL_OF_ENVIRONMENT: &str =
    "SELECT id, at, step, detail FROM grove_journal WHERE environment_id = $1 ORDER BY id";

/// One line of an environment's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalLine {
    pub at: Moment,
    pub step: String,
    pub detail: Option<String>,
}

impl Store {
    pub async fn record_journal_line(
        &self,
        environment: EnvironmentId,
        step: &str,
        detail: Option<&str>,
    ) -> Result<(), StoreError> {
        // The id is chosen once, so that a repeated call writes one line. Ids sort in the order of their
        // creation.
        let id = Nonce::new().to_string();
        self.retry_while_disconnected(|| async {
            sqlx::query(INSERT_JOURNAL_LINE)
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

    /// Returns the history of an environment, oldest first.
    pub async fn journal_lines(&self, environment: EnvironmentId) -> Result<Vec<JournalLine>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(JOURNAL_OF_ENVIRONMENT).bind(environment.to_string()).fetch_all(&self.pool).await?;
            let line = |row| {
                let row = RowReader { row, table: "grove_journal" };
                Ok(JournalLine {
                    at: row.parse("at")?,
                    step: row.required_text("step")?,
                    detail: row.optional_text("detail")?,
                })
            };
            rows.iter().map(line).collect()
        })
        .await
    }
}
